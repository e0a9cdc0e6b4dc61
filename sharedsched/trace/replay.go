// Package trace writes the events of a scheduler as lines of JSON, and lets another one decide them all again.
package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/weftserve/weft/sharedsched"
)

// Replayed counts the contents of a trace.
type Replayed struct {
	Events  int
	Batches int
	Tasks   int              // admitted
	Refused int              // tasks that were not
	Dropped int              // tasks given up in a queue
	Cut     bool             // the recording ended before the scheduler did: its writer did not keep up
	End     sharedsched.Time // of the last event
	State   sharedsched.State
}

// Replay reads a trace that was written by a Writer, passes the same events at the same times to a new Core, and
// compares its decisions with the recorded ones. The first difference is an error that has the line and both versions
// of it. Scheduling has no other inputs, so that there is none unless the trace was cut off or edited, or the program
// is another.
func Replay(r io.Reader) (Replayed, error) {
	p := replayer{running: map[sharedsched.LaneID]*sharedsched.Batch{}}
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			break
		}
		if errors.Is(err, io.EOF) {
			return p.sum, fmt.Errorf("line %d of the trace is cut off: the recording did not end in good order", n)
		}
		if err != nil {
			return p.sum, fmt.Errorf("reading line %d of the trace: %w", n, err)
		}
		if err := p.take(text); err != nil {
			return p.sum, fmt.Errorf("line %d%w", n, err)
		}
	}
	if p.core == nil {
		return p.sum, errors.New(
			"the trace is empty: want the events of a scheduler, as `weft serve --sched-trace FILE` writes them")
	}
	p.sum.State = p.core.State(p.sum.End)
	return p.sum, nil
}

// replayer drives a new Core through a trace.
type replayer struct {
	core    *sharedsched.Core
	running map[sharedsched.LaneID]*sharedsched.Batch
	out     sharedsched.Answer
	again   bytes.Buffer // the line that this Core writes of the present event
	writer  Writer       // into again
	sum     Replayed
}

// take passes the event of a line to the core. The error continues a sentence about the line.
func (p *replayer) take(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf(" is not an event of a scheduler trace: %w", err)
	}
	if (p.core == nil) != (l.Op == opConfig) {
		return fmt.Errorf(": a trace begins with its configuration and has no other, this is %q", l.Op)
	}
	if p.sum.Cut {
		return fmt.Errorf(": the trace goes on where it was cut, with %q", l.Op)
	}
	if l.Op == opCut {
		p.sum.Cut = true
		return nil
	}
	p.again.Reset()
	if err := p.apply(&l); err != nil {
		return fmt.Errorf(": %w", err)
	}
	if !bytes.Equal(p.again.Bytes(), text) && !alike(p.again.Bytes(), &l) {
		return fmt.Errorf(" differs:\nrecorded %sreplayed %s", text, p.again.Bytes())
	}
	p.count(&l)
	return nil
}

// alike reports whether a line says what a recorded one does, but for settings that were recorded and are gone since.
func alike(again []byte, recorded *line) bool {
	var l line
	return json.Unmarshal(again, &l) == nil && reflect.DeepEqual(&l, recorded)
}

// apply passes the event to the core, and writes its result. An event that names something that is not there, such as a
// lane too many, is an error.
func (p *replayer) apply(l *line) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this event cannot have happened: %v", r)
		}
	}()
	if l.Op == opConfig {
		if l.Config == nil {
			return errors.New("the configuration is missing")
		}
		p.core, err = sharedsched.NewCore(*l.Config)
		p.writer = NewWriter(&p.again, l.Config)
		return err
	}
	ev, err := l.event(p.running)
	if err != nil {
		return err
	}
	p.out.Actions = p.out.Actions[:0]
	err = p.core.Step(l.At, &ev, &p.out)
	p.writer.Event(l.At, &ev, &p.out, 0, err)
	return nil
}

// count adds up the contents of a line that was decided in the same way.
func (p *replayer) count(l *line) {
	p.sum.Events++
	p.sum.End = max(p.sum.End, l.At)
	switch {
	case l.Op == ops[sharedsched.EventSubmit] && l.Out.Error == "":
		p.sum.Tasks++
	case l.Op == ops[sharedsched.EventSubmit]:
		p.sum.Refused++
	case l.Out.Batch != nil:
		p.sum.Batches++
	}
	for _, a := range l.Out.Acts {
		if a.End == sharedsched.EndDropped.String() || a.End == sharedsched.EndExpired.String() {
			p.sum.Dropped++
		}
	}
}

// Writer writes a trace: its configuration, then the events, then, if need be, that it was cut. Each line is one call
// of the io.Writer below, whose errors are for its owner to find.
type Writer struct{ lines *json.Encoder }

// NewWriter begins a trace with the configuration.
func NewWriter(to io.Writer, cfg *sharedsched.Config) Writer {
	w := Writer{json.NewEncoder(to)}
	w.write(&line{Op: opConfig, Config: cfg})
	return w
}

// Event writes an event that a Core was given and its result; of out's actions those from first on.
func (w Writer) Event(now sharedsched.Time, ev *sharedsched.Event, out *sharedsched.Answer, first int, err error) {
	l := newLine(now, ev, out, first, err)
	w.write(&l)
}

// Cut writes the last line of a trace that ends before its scheduler does.
func (w Writer) Cut(now sharedsched.Time) { w.write(&line{Op: opCut, At: now}) }

// write writes a line.
func (w Writer) write(l *line) {
	_ = w.lines.Encode(l) //nolint:errchkjson // no weight or factor is infinite or not a number: they are validated
}
