package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// execution is one batch that the server ran, of its --sched-trace. Times count from the start of its scheduler.
type execution struct {
	start, end time.Duration
	rows       int
}

// readTrace returns the executions on a device in the order of their starts.
func readTrace(path, device string) ([]execution, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []execution
	for lines := bufio.NewReader(file); err == nil; {
		var line []byte
		if line, err = lines.ReadBytes('\n'); !bytes.HasPrefix(line, []byte(`{"op":"settle"`)) {
			continue // only this line is written when an execution ends
		}
		var settled struct {
			At  time.Duration
			Out struct {
				Event struct {
					Device  string
					Rows    int
					Elapsed time.Duration
				}
			}
		}
		if err := json.Unmarshal(line, &settled); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if e := &settled.Out.Event; e.Device == device {
			all = append(all, execution{start: settled.At - e.Elapsed, end: settled.At, rows: e.Rows})
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s tells of no execution on %s", path, device)
	}
	slices.SortFunc(all, func(a, b execution) int { return cmp.Compare(a.start, b.start) })
	return all, nil
}

// usage says how a device was used for a time.
type usage struct {
	busy       float64         // part of the time with at least one batch
	gaps       []time.Duration // each time without, ascending
	executions int
	rows       int
}

// usageBetween looks at a part of the trace. Executions that begin or end outside count for the time inside, and not
// for the rows.
func usageBetween(executions []execution, from, to time.Duration) usage {
	var u usage
	var idle time.Duration
	gap := func(until time.Duration, since time.Duration) {
		if until > since {
			idle += until - since
			u.gaps = append(u.gaps, until-since)
		}
	}
	covered := from
	for _, e := range executions {
		if e.end <= from || e.start >= to {
			continue
		}
		gap(e.start, covered)
		covered = max(covered, min(e.end, to))
		if e.start >= from && e.end <= to {
			u.executions++
			u.rows += e.rows
		}
	}
	gap(to, covered)
	slices.Sort(u.gaps)
	u.busy = 1 - float64(idle)/float64(to-from)
	return u
}

// batchRows returns how many rows a batch has on average.
func (u *usage) batchRows() float64 { return float64(u.rows) / float64(max(u.executions, 1)) }

// pause returns the time without a batch that a part of the batches began after at most: 0 for one that began while
// another ran.
func (u *usage) pause(part float64) time.Duration {
	n := max(u.executions, len(u.gaps))
	overlapped := n - len(u.gaps)
	at := min(int(part*float64(n)), n-1)
	if at < overlapped {
		return 0
	}
	return u.gaps[at-overlapped]
}
