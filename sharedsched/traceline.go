package sharedsched

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
)

// traceLine is a line of a trace: an event, and what came of it. Times are nanoseconds on the scheduler's clock. Its
// first line has the configuration instead of an event; the last may be traceCut.
type traceLine struct {
	Op string `json:"op"`
	At Time   `json:"at,omitempty"`

	Config   *Config      `json:"config,omitempty"`
	Added    *Device      `json:"added,omitempty"`
	Name     string       `json:"name,omitempty"`
	Device   string       `json:"device,omitempty"`
	Weight   float64      `json:"weight,omitempty"`
	Flow     FlowID       `json:"flow,omitempty"`
	Version  VersionID    `json:"version,omitempty"`
	From     VersionID    `json:"from,omitempty"`
	Moved    bool         `json:"moved,omitempty"`
	Settings *Settings    `json:"settings,omitempty"`
	Sample   *cost.Sample `json:"sample,omitempty"`
	Task     *traceTask   `json:"task,omitempty"`
	Limit    Time         `json:"limit,omitempty"`
	Handle   Handle       `json:"handle,omitempty"`
	Lane     LaneID       `json:"lane,omitempty"`
	Report   *Report      `json:"report,omitempty"`
	Failed   []int        `json:"failed,omitempty"` // spans

	Out traceOut `json:"out"`
}

// traceTask is a Task without what Core does not look at. Keys are bytes rather than text.
type traceTask struct {
	Rows     int      `json:"rows"`
	Key      []byte   `json:"key,omitempty"`
	Shape    []byte   `json:"shape,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"`
	Target   int64    `json:"target,omitempty"`
	Priority Priority `json:"priority,omitempty"`

	Alone      bool `json:"alone,omitempty"`
	Unmeasured bool `json:"unmeasured,omitempty"`
}

// traceOut is what came of an event.
type traceOut struct {
	Error string      `json:"error,omitempty"`
	ID    int64       `json:"id,omitempty"` // of a new flow or version, a new device's first lane, or a task's handle
	Batch *traceBatch `json:"batch,omitempty"`
	Event *BatchEvent `json:"event,omitempty"`
	Acts  []traceAct  `json:"acts,omitempty"`
}

// traceBatch is the batch that a lane was given.
type traceBatch struct {
	Version VersionID   `json:"version"`
	Spans   []traceSpan `json:"spans"`
	Padded  int         `json:"padded"`
	Alone   bool        `json:"alone,omitempty"`
	Reason  string      `json:"reason"`
}

// traceSpan is a range of rows of one task in it.
type traceSpan struct {
	Task  Handle `json:"task"`
	First int    `json:"first,omitempty"`
	Rows  int    `json:"rows"`
}

// traceAct is an action: a task that ended, or a version that is gone.
type traceAct struct {
	Task Handle     `json:"task,omitempty"`
	End  string     `json:"end,omitempty"`
	Gone *VersionID `json:"gone,omitempty"`
}

// Two lines hold no event.
const (
	traceConfig = "config" // the first one
	traceCut    = "cut"    // the last one, where the writer did not keep up
)

// traceOps are the names of the kinds of event.
var traceOps = [...]string{
	EventAddDevice: "addDevice", EventRemoveDevice: "removeDevice",
	EventAddFlow: "addFlow", EventRemoveFlow: "removeFlow", EventAddVersion: "addVersion", EventInherit: "inherit",
	EventConfigure: "configure", EventRemoveVersion: "removeVersion", EventExpel: "expel", EventObserve: "observe",
	EventSubmit: "submit", EventCancel: "cancel", EventNext: "next", EventSettle: "settle", EventAdvance: "advance",
	EventHurry: "hurry", EventDrain: "drain", EventClose: "close",
}

// newTraceLine describes an event and what came of it; of out's actions those from first on. Whatever the event points
// to is copied: a pointer that was kept would have all events allocated, recorded or not.
func newTraceLine(now Time, ev *Event, out *Answer, first int, err error) traceLine {
	l := traceLine{
		Op: traceOps[ev.Kind], At: now, Name: strings.Clone(ev.Name), Device: strings.Clone(ev.Device),
		Weight: ev.Weight,
		Flow:   ev.Flow, Version: ev.Version, From: ev.From, Moved: ev.Moved,
		Limit: ev.Limit, Handle: ev.Handle, Lane: ev.Lane,
		Added: copied(ev.Added), Settings: copied(ev.Settings), Sample: copied(ev.Sample), Report: copied(ev.Report),
	}
	if k := ev.Task; k != nil {
		l.Task = &traceTask{
			Rows: k.Rows, Key: []byte(k.Key), Shape: []byte(k.ShapeKey), Bytes: k.Bytes, Target: int64(k.Target),
			Priority: k.Priority, Alone: k.Alone, Unmeasured: k.Unmeasured,
		}
	}
	switch ev.Kind {
	case EventAddDevice:
		l.Out.ID = int64(out.Lane)
	case EventAddFlow:
		l.Out.ID = int64(out.Flow)
	case EventAddVersion:
		l.Out.ID = int64(out.Version)
	case EventSubmit:
		l.Out.ID = int64(out.Task)
	case EventNext:
		if out.OK {
			l.Out.Batch = newTraceBatch(ev.Batch)
		}
	case EventSettle:
		l.Out.Event = copied(&out.Batch)
		for i := range ev.Batch.Spans {
			if ev.Batch.Spans[i].Err != nil {
				l.Failed = append(l.Failed, i)
			}
		}
	default: // the others answer nothing but actions
	}
	if err != nil {
		l.Out.Error = err.Error()
	}
	for i := range out.Actions[first:] {
		switch a := &out.Actions[first+i]; a.Kind {
		case TaskEnded:
			l.Out.Acts = append(l.Out.Acts, traceAct{Task: a.Task, End: a.End.String()})
		case VersionGone:
			l.Out.Acts = append(l.Out.Acts, traceAct{Gone: copied(&a.Version)})
		}
	}
	return l
}

// copied returns a pointer to a copy, nil for nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// newTraceBatch describes the batch that a lane was given.
func newTraceBatch(b *Batch) *traceBatch {
	batch := &traceBatch{Version: b.Version, Padded: b.Padded, Alone: b.Alone, Reason: b.Reason.String()}
	for i := range b.Spans {
		s := &b.Spans[i]
		batch.Spans = append(batch.Spans, traceSpan{Task: s.task, First: s.First, Rows: s.Rows})
	}
	return batch
}

// errReplay marks the failed spans of a replayed batch; what failed about them is not recorded.
var errReplay = errors.New("failed when it was recorded")

// event returns the event of the line. running are the batches in flight by lane, of which a settled one is taken.
func (l *traceLine) event(running map[LaneID]*Batch) (Event, error) {
	ev := Event{
		Name: l.Name, Device: l.Device, Weight: l.Weight, Flow: l.Flow, Version: l.Version, From: l.From,
		Moved: l.Moved,
		Limit: l.Limit, Handle: l.Handle, Lane: l.Lane,
		Added: l.Added, Settings: l.Settings, Sample: l.Sample, Report: l.Report,
	}
	kind := slices.Index(traceOps[:], l.Op)
	if kind < 1 {
		return ev, fmt.Errorf("there is no event %q", l.Op)
	}
	ev.Kind = EventKind(kind)
	if k := l.Task; k != nil {
		ev.Task = &Task{
			Rows: k.Rows, Key: string(k.Key), ShapeKey: string(k.Shape), Bytes: k.Bytes,
			Target:   time.Duration(k.Target),
			Priority: k.Priority, Alone: k.Alone, Unmeasured: k.Unmeasured,
		}
	}
	switch ev.Kind {
	case EventNext:
		ev.Batch = &Batch{}
		running[ev.Lane] = ev.Batch
	case EventSettle:
		if ev.Batch = running[ev.Lane]; ev.Batch == nil || len(ev.Batch.Spans) == 0 {
			return ev, fmt.Errorf("lane %d ends a batch that it did not start", ev.Lane)
		}
		delete(running, ev.Lane)
		for _, i := range l.Failed {
			if i < 0 || i >= len(ev.Batch.Spans) {
				return ev, fmt.Errorf("span %d failed, the batch has %d", i, len(ev.Batch.Spans))
			}
			ev.Batch.Spans[i].Err = errReplay
		}
	default: // the others know of no batch
	}
	return ev, nil
}
