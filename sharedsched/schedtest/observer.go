// Package schedtest has stand-ins for the surroundings of a scheduler, for tests.
package schedtest

import (
	"slices"
	"sync"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// Observer is a shell.Observer that remembers the executions. Its methods are safe for concurrent use.
type Observer struct {
	mu      sync.Mutex
	batches []sharedsched.BatchEvent // guarded by mu
}

// BatchDone implements shell.Observer.
func (o *Observer) BatchDone(e sharedsched.BatchEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches = append(o.batches, e)
}

// Batches returns the executions so far, the oldest first.
func (o *Observer) Batches() []sharedsched.BatchEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.batches)
}

// Executor is a shell.Executor whose batches all succeed and take the time that it returns for them. It sleeps for that
// long, so that it belongs in a testing/synctest bubble.
type Executor func(b *sharedsched.Batch) time.Duration

// Execute implements shell.Executor.
func (e Executor) Execute(b *sharedsched.Batch) sharedsched.Report {
	took := e(b)
	time.Sleep(took)
	return sharedsched.Report{DeviceTime: took}
}

// Telemetry is a shell.Telemetry that returns the samples it was given. The zero value knows of no device. Its methods
// are safe for concurrent use.
type Telemetry struct {
	mu      sync.Mutex
	devices map[string]said // guarded by mu
}

type said struct {
	sample cost.Sample
	number uint64
}

// Set makes s the device's latest sample.
func (t *Telemetry) Set(device string, s cost.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.devices == nil {
		t.devices = map[string]said{}
	}
	t.devices[device] = said{s, t.devices[device].number + 1}
}

// Sample implements shell.Telemetry.
func (t *Telemetry) Sample(device string) (cost.Sample, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.devices[device]
	return d.sample, d.number
}
