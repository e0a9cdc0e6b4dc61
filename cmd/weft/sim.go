package main

import (
	"fmt"
	"os"
	"time"

	"github.com/weftserve/weft/sharedsched/trace"
)

// simCommand is `weft sim`.
type simCommand struct {
	Replay string `required:"" help:"The file that \"weft serve --sched-trace FILE\" wrote." type:"path" placeholder:"FILE"`
}

// Run has the scheduler decide a recording again, and prints what the recording has. A decision that differs is an
// error, with the number of events that did not.
func (c *simCommand) Run(s streams) error {
	file, err := os.Open(c.Replay)
	if err != nil {
		return err
	}
	defer file.Close()
	held, err := trace.Replay(file)
	if err != nil {
		return fmt.Errorf("%s, replayed for %d events: %w", c.Replay, held.Events, err)
	}
	_, err = fmt.Fprintf(s.out, `%d events within %v replayed bit for bit
%d tasks admitted, %d refused, %d given up or expired while they waited
%d batches
`, held.Events, time.Duration(held.End).Round(time.Millisecond), held.Tasks, held.Refused, held.Dropped, held.Batches)
	if err == nil && held.Cut {
		_, err = fmt.Fprintln(s.out, "the recording ends before the server did: the disk did not keep up with it")
	}
	return err
}
