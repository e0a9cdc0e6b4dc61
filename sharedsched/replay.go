package sharedsched

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Replayed is what a trace held.
type Replayed struct {
	Events  int
	Batches int
	Tasks   int  // admitted
	Refused int  // tasks that were not
	Dropped int  // tasks given up in a queue
	End     Time // of the last event
	State   State
}

// errReplay marks the failed spans of a replayed batch; what failed about them is not recorded.
var errReplay = errors.New("failed when it was recorded")

// replayer drives a new Core through a trace.
type replayer struct {
	core    *Core
	again   bytes.Buffer // what the trace of this Core says about the present event
	trace   *trace
	batches map[LaneID]*Batch
	sum     Replayed
}

// Replay reads a trace that was written to Config.Trace, has a new Core go through the same events at the same times, and
// compares what it decides with what was decided then. The first difference is an error that tells the line and both versions of
// it. Scheduling has no other inputs, so that there is none unless the trace was cut or edited, or the program is another.
func Replay(r io.Reader) (Replayed, error) {
	p := replayer{batches: map[LaneID]*Batch{}}
	p.trace = newTrace(&p.again)
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
		var l traceLine
		if err := json.Unmarshal(text, &l); err != nil {
			return p.sum, fmt.Errorf("line %d is not an event of a scheduler trace: %w", n, err)
		}
		if (p.core == nil) != (l.Op == "config") {
			return p.sum, fmt.Errorf("line %d: a trace begins with its configuration and has no other, this is %q", n, l.Op)
		}
		p.again.Reset()
		if err := p.apply(&l); err != nil {
			return p.sum, fmt.Errorf("line %d: %w", n, err)
		}
		if !bytes.Equal(p.again.Bytes(), text) {
			return p.sum, fmt.Errorf("line %d differs:\nrecorded %sreplayed %s", n, text, p.again.Bytes())
		}
		p.count(&l)
	}
	if p.core == nil {
		return p.sum, errors.New("the trace is empty: want the events of a scheduler, as `weft serve --sched-trace FILE` writes them")
	}
	p.sum.State = p.core.State(p.sum.End)
	return p.sum, nil
}

func (p *replayer) count(l *traceLine) {
	p.sum.Events++
	p.sum.End = max(p.sum.End, l.At)
	switch {
	case l.Op == "submit" && l.Out.Error == "":
		p.sum.Tasks++
	case l.Op == "submit":
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

// apply does to the core what the line says. A line that names what is not there, such as a lane too many, is an error too.
func (p *replayer) apply(l *traceLine) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this event cannot have happened: %v", r)
		}
	}()
	var acts []Action
	switch l.Op {
	case "config":
		if l.Config == nil {
			return errors.New("the configuration is missing")
		}
		if p.core, err = NewCore(*l.Config); err != nil {
			return err
		}
		p.trace.config(l.Config)
	case "addFlow":
		id, err := p.core.AddFlow(l.Name, l.Device, l.Weight)
		p.trace.addFlow(l.Name, l.Device, l.Weight, id, err)
	case "removeFlow":
		p.core.RemoveFlow(l.Flow)
		p.trace.removeFlow(l.Flow)
	case "addVersion":
		id, err := p.core.AddVersion(l.Name, l.Flow, *l.Settings)
		p.trace.addVersion(l.Name, l.Flow, l.Settings, id, err)
	case "inherit":
		p.core.Inherit(l.Version, l.From, l.Moved)
		p.trace.inherit(l.Version, l.From, l.Moved)
	case "observe":
		p.core.Observe(l.At, l.Device, *l.Sample)
		p.trace.observe(l.At, l.Device, *l.Sample)
	case "configure":
		p.trace.configure(l.At, l.Version, l.Settings, p.core.Configure(l.At, l.Version, *l.Settings))
	case "removeVersion":
		p.trace.event(l.Op, l.At, l.Version, p.core.RemoveVersion(l.At, l.Version, acts))
	case "expel":
		p.trace.event(l.Op, l.At, l.Version, p.core.Expel(l.At, l.Version, acts))
	case "hurry":
		p.core.Hurry(l.At)
		p.trace.event(l.Op, l.At, l.Version, nil)
	case "drain":
		p.core.Drain(l.At)
		p.trace.event(l.Op, l.At, l.Version, nil)
	case "close":
		p.trace.event(l.Op, l.At, l.Version, p.core.Close(l.At, acts))
	case "advance":
		p.trace.event(l.Op, l.At, l.Version, p.core.Advance(l.At, acts))
	case "submit":
		k := l.Task.task()
		h, acts, err := p.core.Submit(l.At, l.Version, &k, l.Limit, acts)
		p.trace.submit(l.At, l.Version, &k, l.Limit, h, acts, err)
	case "cancel":
		_, acts = p.core.Cancel(l.At, l.Handle, acts)
		p.trace.cancel(l.At, l.Handle, acts)
	case "next":
		b := &Batch{}
		ok, acts := p.core.Next(l.At, l.Lane, b, acts)
		p.batches[l.Lane] = b
		p.trace.next(l.At, l.Lane, ok, b, acts)
	case "settle":
		return p.settle(l)
	default:
		return fmt.Errorf("there is no event %q", l.Op)
	}
	return nil
}

func (p *replayer) settle(l *traceLine) error {
	b := p.batches[l.Lane]
	if b == nil || len(b.Spans) == 0 || l.Report == nil {
		return fmt.Errorf("lane %d ends a batch that it did not start", l.Lane)
	}
	for _, i := range l.Failed {
		if i < 0 || i >= len(b.Spans) {
			return fmt.Errorf("span %d failed, the batch has %d", i, len(b.Spans))
		}
		b.Spans[i].Err = errReplay
	}
	ev, acts := p.core.Settle(l.At, l.Lane, b, *l.Report, nil)
	p.trace.settle(l.At, l.Lane, b, *l.Report, ev, acts)
	delete(p.batches, l.Lane)
	return nil
}

func (t *traceTask) task() Task {
	return Task{
		Rows: t.Rows, Key: string(t.Key), ShapeKey: string(t.Shape), Bytes: t.Bytes, Target: time.Duration(t.Target), Priority: t.Priority,
		Alone: t.Alone, Unmeasured: t.Unmeasured,
	}
}
