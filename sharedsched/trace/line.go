package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// line is a line of a trace: an event and its result. Times are nanoseconds on the scheduler's clock. The first line
// has the configuration instead of an event; the last may be opCut.
type line struct {
	Op string           `json:"op"`
	At sharedsched.Time `json:"at,omitempty"`

	Config   *sharedsched.Config   `json:"config,omitempty"`
	Added    *sharedsched.Device   `json:"added,omitempty"`
	Name     string                `json:"name,omitempty"`
	Device   string                `json:"device,omitempty"`
	Weight   float64               `json:"weight,omitempty"`
	Flow     sharedsched.FlowID    `json:"flow,omitempty"`
	Version  sharedsched.VersionID `json:"version,omitempty"`
	From     sharedsched.VersionID `json:"from,omitempty"`
	Moved    bool                  `json:"moved,omitempty"`
	Settings *sharedsched.Settings `json:"settings,omitempty"`
	Sample   *cost.Sample          `json:"sample,omitempty"`
	Task     *task                 `json:"task,omitempty"`
	Limit    sharedsched.Time      `json:"limit,omitempty"`
	Handle   sharedsched.Handle    `json:"handle,omitempty"`
	Lane     sharedsched.LaneID    `json:"lane,omitempty"`
	Report   *sharedsched.Report   `json:"report,omitempty"`
	Failed   []int                 `json:"failed,omitempty"` // spans
	Again    []int                 `json:"again,omitempty"`  // those of them that are run again

	Out outcome `json:"out"`
}

// task is a Task without the fields that Core does not read. Keys are bytes rather than text.
type task struct {
	Rows     int                  `json:"rows"`
	Key      []byte               `json:"key,omitempty"`
	Shape    []byte               `json:"shape,omitempty"`
	Bytes    int64                `json:"bytes,omitempty"`
	Target   int64                `json:"target,omitempty"`
	Priority sharedsched.Priority `json:"priority,omitempty"`

	Alone      bool `json:"alone,omitempty"`
	Unmeasured bool `json:"unmeasured,omitempty"`
	OpenEnded  bool `json:"open_ended,omitempty"`

	Identity []byte  `json:"identity,omitempty"`
	Weight   float64 `json:"weight,omitempty"`
}

// outcome is the result of an event.
type outcome struct {
	Error string `json:"error,omitempty"`
	// ID is of a new flow or version, a new device's first lane, or a task's handle.
	ID    int64                   `json:"id,omitempty"`
	Batch *batch                  `json:"batch,omitempty"`
	Event *sharedsched.BatchEvent `json:"event,omitempty"`
	Acts  []action                `json:"acts,omitempty"`
}

// batch is the batch that a lane was given.
type batch struct {
	Version sharedsched.VersionID `json:"version"`
	Spans   []span                `json:"spans"`
	Padded  int                   `json:"padded"`
	Alone   bool                  `json:"alone,omitempty"`
	Reason  string                `json:"reason"`
}

// span is a range of rows of one task in it.
type span struct {
	Task  sharedsched.Handle `json:"task"`
	First int                `json:"first,omitempty"`
	Rows  int                `json:"rows"`
}

// action is an action: a task that ended, or a version that is gone.
type action struct {
	Task sharedsched.Handle     `json:"task,omitempty"`
	End  string                 `json:"end,omitempty"`
	Gone *sharedsched.VersionID `json:"gone,omitempty"`
}

// Two lines hold no event.
const (
	opConfig = "config" // the first one
	opCut    = "cut"    // the last one, where the writer did not keep up
)

// ops are the names of the kinds of event.
var ops = [...]string{
	sharedsched.EventAddDevice:     "addDevice",
	sharedsched.EventRemoveDevice:  "removeDevice",
	sharedsched.EventAddFlow:       "addFlow",
	sharedsched.EventRemoveFlow:    "removeFlow",
	sharedsched.EventAddVersion:    "addVersion",
	sharedsched.EventInherit:       "inherit",
	sharedsched.EventConfigure:     "configure",
	sharedsched.EventRemoveVersion: "removeVersion",
	sharedsched.EventExpel:         "expel",
	sharedsched.EventObserve:       "observe",
	sharedsched.EventSubmit:        "submit",
	sharedsched.EventCancel:        "cancel",
	sharedsched.EventNext:          "next",
	sharedsched.EventSettle:        "settle",
	sharedsched.EventAdvance:       "advance",
	sharedsched.EventHurry:         "hurry",
	sharedsched.EventDrain:         "drain",
	sharedsched.EventClose:         "close",
}

// newLine describes an event and its result; of out's actions those from first on. All that the event points to is
// copied: a pointer that was kept would cause all events to be allocated, recorded or not.
func newLine(now sharedsched.Time, ev *sharedsched.Event, out *sharedsched.Answer, first int, err error) line {
	l := line{
		Op: ops[ev.Kind], At: now,
		Name: strings.Clone(ev.Name), Device: strings.Clone(ev.Device), Weight: ev.Weight,
		Flow: ev.Flow, Version: ev.Version, From: ev.From, Moved: ev.Moved,
		Limit: ev.Limit, Handle: ev.Handle, Lane: ev.Lane,
		Added: copied(ev.Added), Settings: copied(ev.Settings), Sample: copied(ev.Sample), Report: copied(ev.Report),
	}
	if k := ev.Task; k != nil {
		l.Task = &task{
			Rows: k.Rows, Key: []byte(k.Key), Shape: []byte(k.ShapeKey), Bytes: k.Bytes, Target: int64(k.Target),
			Priority: k.Priority, Alone: k.Alone, Unmeasured: k.Unmeasured, OpenEnded: k.OpenEnded,
			Identity: []byte(k.Identity), Weight: k.Weight,
		}
	}
	switch ev.Kind {
	case sharedsched.EventAddDevice:
		l.Out.ID = int64(out.Lane)
	case sharedsched.EventAddFlow:
		l.Out.ID = int64(out.Flow)
	case sharedsched.EventAddVersion:
		l.Out.ID = int64(out.Version)
	case sharedsched.EventSubmit:
		l.Out.ID = int64(out.Task)
	case sharedsched.EventNext:
		if out.OK {
			l.Out.Batch = newBatch(ev.Batch)
		}
	case sharedsched.EventSettle:
		l.Out.Event = copied(&out.Batch)
		for i := range ev.Batch.Spans {
			if s := &ev.Batch.Spans[i]; s.Err != nil {
				l.Failed = append(l.Failed, i)
				if s.Again {
					l.Again = append(l.Again, i)
				}
			}
		}
	default: // the others answer nothing but actions
	}
	if err != nil {
		l.Out.Error = err.Error()
	}
	for i := range out.Actions[first:] {
		switch a := &out.Actions[first+i]; a.Kind {
		case sharedsched.TaskEnded:
			l.Out.Acts = append(l.Out.Acts, action{Task: a.Task, End: a.End.String()})
		case sharedsched.VersionGone:
			l.Out.Acts = append(l.Out.Acts, action{Gone: copied(&a.Version)})
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

// newBatch describes the batch that a lane was given.
func newBatch(b *sharedsched.Batch) *batch {
	described := &batch{Version: b.Version, Padded: b.Padded, Alone: b.Alone, Reason: b.Reason.String()}
	for i := range b.Spans {
		s := &b.Spans[i]
		described.Spans = append(described.Spans, span{Task: s.Task(), First: s.First, Rows: s.Rows})
	}
	return described
}

// errReplay marks the failed spans of a replayed batch; their own errors are not recorded.
var errReplay = errors.New("failed when it was recorded")

// event returns the event of the line. running are the batches in flight by lane; a settled one is taken out.
func (l *line) event(running map[sharedsched.LaneID]*sharedsched.Batch) (sharedsched.Event, error) {
	ev := sharedsched.Event{
		Name: l.Name, Device: l.Device, Weight: l.Weight,
		Flow: l.Flow, Version: l.Version, From: l.From, Moved: l.Moved,
		Limit: l.Limit, Handle: l.Handle, Lane: l.Lane,
		Added: l.Added, Settings: l.Settings, Sample: l.Sample, Report: l.Report,
	}
	kind := slices.Index(ops[:], l.Op)
	if kind < 1 {
		return ev, fmt.Errorf("there is no event %q", l.Op)
	}
	ev.Kind = sharedsched.EventKind(kind)
	if k := l.Task; k != nil {
		ev.Task = &sharedsched.Task{
			Rows: k.Rows, Key: string(k.Key), ShapeKey: string(k.Shape), Bytes: k.Bytes,
			Target: time.Duration(k.Target), Priority: k.Priority, Alone: k.Alone, Unmeasured: k.Unmeasured,
			OpenEnded: k.OpenEnded, Identity: string(k.Identity), Weight: k.Weight,
		}
	}
	switch ev.Kind {
	case sharedsched.EventNext:
		ev.Batch = &sharedsched.Batch{}
		running[ev.Lane] = ev.Batch
	case sharedsched.EventSettle:
		if ev.Batch = running[ev.Lane]; ev.Batch == nil || len(ev.Batch.Spans) == 0 {
			return ev, fmt.Errorf("lane %d ends a batch that it did not start", ev.Lane)
		}
		delete(running, ev.Lane)
		for _, i := range l.Failed {
			if i < 0 || i >= len(ev.Batch.Spans) {
				return ev, fmt.Errorf("span %d failed, the batch has %d", i, len(ev.Batch.Spans))
			}
			ev.Batch.Spans[i].Err = errReplay
			ev.Batch.Spans[i].Again = slices.Contains(l.Again, i)
		}
	default: // the others know of no batch
	}
	return ev, nil
}
