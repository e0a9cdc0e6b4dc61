package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// replay decides again what was decided in a trace, and prints what it held.
func (c *simCommand) replay(out io.Writer) error {
	if c.Quick || c.Out != "" || len(c.Policies) > 0 || len(c.Workloads) > 0 || c.Seconds != 0 || c.Seeds != 0 {
		return errors.New("--replay decides a recording again and simulates nothing; leave the other flags out")
	}
	file, err := os.Open(c.Replay)
	if err != nil {
		return err
	}
	defer file.Close()
	held, err := sharedsched.Replay(file)
	if err != nil {
		return fmt.Errorf("%s, replayed for %d events: %w", c.Replay, held.Events, err)
	}
	_, err = fmt.Fprintf(out, `%d events within %v replayed bit for bit
%d tasks admitted, %d refused, %d given up or expired while they waited
%d batches
`, held.Events, time.Duration(held.End).Round(time.Millisecond), held.Tasks, held.Refused, held.Dropped, held.Batches)
	if err == nil && held.Cut {
		_, err = fmt.Fprintln(out, "the recording ends before the server did: the disk did not keep up with it")
	}
	return err
}
