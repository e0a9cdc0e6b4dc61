package schedtest

import (
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// Executor is a shell.Executor whose batches all succeed and take the time that it returns for them. It sleeps for that
// long, so that it belongs in a testing/synctest bubble.
type Executor func(b *sharedsched.Batch) time.Duration

// Execute implements shell.Executor.
func (e Executor) Execute(b *sharedsched.Batch) sharedsched.Report {
	took := e(b)
	time.Sleep(took)
	return sharedsched.Report{DeviceTime: took}
}
