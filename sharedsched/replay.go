package sharedsched

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Replayed is what a trace held.
type Replayed struct {
	Events  int
	Batches int
	Tasks   int  // admitted
	Refused int  // tasks that were not
	Dropped int  // tasks given up in a queue
	Cut     bool // the recording ended before the scheduler did: its writer did not keep up
	End     Time // of the last event
	State   State
}

// Replay reads a trace that was written to Config.Trace, has a new Core take the same events at the same times, and
// compares what it decides with what was decided then. The first difference is an error that tells the line and both
// versions of it. Scheduling has no other inputs, so that there is none unless the trace was cut off or edited, or the
// program is another.
func Replay(r io.Reader) (Replayed, error) {
	p := replayer{running: map[LaneID]*Batch{}}
	p.encoder = json.NewEncoder(&p.again)
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
		if err := p.line(text); err != nil {
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
	core    *Core
	running map[LaneID]*Batch
	out     Answer
	again   bytes.Buffer  // what the trace of this Core says of the present event
	encoder *json.Encoder // into again
	sum     Replayed
}

// line has the core take the event of a line. The error continues a sentence about the line.
func (p *replayer) line(text []byte) error {
	var l traceLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf(" is not an event of a scheduler trace: %w", err)
	}
	if (p.core == nil) != (l.Op == traceConfig) {
		return fmt.Errorf(": a trace begins with its configuration and has no other, this is %q", l.Op)
	}
	if p.sum.Cut {
		return fmt.Errorf(": the trace goes on where it was cut, with %q", l.Op)
	}
	if l.Op == traceCut {
		p.sum.Cut = true
		return nil
	}
	again, err := p.apply(&l)
	if err != nil {
		return fmt.Errorf(": %w", err)
	}
	p.again.Reset()
	if err := p.encoder.Encode(again); err != nil {
		return fmt.Errorf(": %w", err)
	}
	if !bytes.Equal(p.again.Bytes(), text) {
		return fmt.Errorf(" differs:\nrecorded %sreplayed %s", text, p.again.Bytes())
	}
	p.count(&l)
	return nil
}

// apply returns the line that the core writes of the same event. One that names what is not there, such as a lane too
// many, is an error.
func (p *replayer) apply(l *traceLine) (again *traceLine, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this event cannot have happened: %v", r)
		}
	}()
	if l.Op == traceConfig {
		if l.Config == nil {
			return nil, errors.New("the configuration is missing")
		}
		p.core, err = NewCore(*l.Config)
		return &traceLine{Op: traceConfig, Config: l.Config}, err
	}
	ev, err := l.event(p.running)
	if err != nil {
		return nil, err
	}
	p.out.Actions = p.out.Actions[:0]
	err = p.core.Step(l.At, &ev, &p.out)
	line := newTraceLine(l.At, &ev, &p.out, 0, err)
	return &line, nil
}

// count adds up what a line that was decided in the same way tells.
func (p *replayer) count(l *traceLine) {
	p.sum.Events++
	p.sum.End = max(p.sum.End, l.At)
	switch {
	case l.Op == traceOps[EventSubmit] && l.Out.Error == "":
		p.sum.Tasks++
	case l.Op == traceOps[EventSubmit]:
		p.sum.Refused++
	case l.Out.Batch != nil:
		p.sum.Batches++
	}
	for _, a := range l.Out.Acts {
		if a.End == EndDropped.String() || a.End == EndExpired.String() {
			p.sum.Dropped++
		}
	}
}
