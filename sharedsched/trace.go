package sharedsched

import (
	"encoding/json"
	"io"

	"github.com/weftserve/weft/sharedsched/cost"
)

// trace writes every event that a Scheduler hands to its Core, and what Core answered, as lines of JSON. Replay does the same to
// a new Core and compares. A nil trace writes nothing.
type trace struct {
	encoder *json.Encoder
}

// traceLine is one event. Times are nanoseconds on the scheduler's clock.
type traceLine struct {
	Op string `json:"op"`
	At Time   `json:"at,omitempty"`

	Config   *Config      `json:"config,omitempty"`
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
	ID    int64       `json:"id,omitempty"` // of a new flow or version, or the handle of a task
	Batch *traceBatch `json:"batch,omitempty"`
	Event *BatchEvent `json:"event,omitempty"`
	Acts  []traceAct  `json:"acts,omitempty"`
}

type traceBatch struct {
	Version VersionID   `json:"version"`
	Spans   []traceSpan `json:"spans"`
	Padded  int         `json:"padded"`
	Alone   bool        `json:"alone,omitempty"`
	Reason  string      `json:"reason"`
}

type traceSpan struct {
	Task  Handle `json:"task"`
	First int    `json:"first,omitempty"`
	Rows  int    `json:"rows"`
}

type traceAct struct {
	Task Handle     `json:"task,omitempty"`
	End  string     `json:"end,omitempty"`
	Gone *VersionID `json:"gone,omitempty"`
}

func newTrace(w io.Writer) *trace {
	if w == nil {
		return nil
	}
	return &trace{encoder: json.NewEncoder(w)}
}

// write ends a line. An error of the writer is its owner's to find: a scheduler goes on without a trace.
func (t *trace) write(l traceLine, acts []Action, err error) {
	if err != nil {
		l.Out.Error = err.Error()
	}
	for i := range acts {
		switch a := &acts[i]; a.Kind {
		case TaskEnded:
			l.Out.Acts = append(l.Out.Acts, traceAct{Task: a.Task, End: a.End.String()})
		case VersionGone:
			l.Out.Acts = append(l.Out.Acts, traceAct{Gone: &a.Version})
		}
	}
	_ = t.encoder.Encode(&l) //nolint:errchkjson // no weight or factor is infinite or not a number: they are validated
}

func (t *trace) config(cfg *Config) {
	if t != nil {
		t.write(traceLine{Op: "config", Config: cfg}, nil, nil)
	}
}

func (t *trace) addFlow(name, device string, weight float64, id FlowID, err error) {
	if t != nil {
		t.write(traceLine{Op: "addFlow", Name: name, Device: device, Weight: weight, Out: traceOut{ID: int64(id)}}, nil, err)
	}
}

func (t *trace) removeFlow(id FlowID) {
	if t != nil {
		t.write(traceLine{Op: "removeFlow", Flow: id}, nil, nil)
	}
}

func (t *trace) addVersion(name string, f FlowID, s *Settings, id VersionID, err error) {
	if t != nil {
		t.write(traceLine{Op: "addVersion", Name: name, Flow: f, Settings: s, Out: traceOut{ID: int64(id)}}, nil, err)
	}
}

func (t *trace) inherit(id, from VersionID, moved bool) {
	if t != nil {
		t.write(traceLine{Op: "inherit", Version: id, From: from, Moved: moved}, nil, nil)
	}
}

func (t *trace) observe(now Time, device string, s cost.Sample) {
	if t != nil {
		kept := s // else s itself would be allocated, trace or not
		t.write(traceLine{Op: "observe", At: now, Device: device, Sample: &kept}, nil, nil)
	}
}

func (t *trace) configure(now Time, id VersionID, s *Settings, err error) {
	if t != nil {
		t.write(traceLine{Op: "configure", At: now, Version: id, Settings: s}, nil, err)
	}
}

// event records what needs nothing but a time: removeVersion, expel, hurry, drain, close and advance.
func (t *trace) event(op string, now Time, id VersionID, acts []Action) {
	if t != nil {
		t.write(traceLine{Op: op, At: now, Version: id}, acts, nil)
	}
}

func (t *trace) submit(now Time, id VersionID, k *Task, limit Time, h Handle, acts []Action, err error) {
	if t == nil {
		return
	}
	task := traceTask{
		Rows: k.Rows, Key: []byte(k.Key), Shape: []byte(k.ShapeKey), Bytes: k.Bytes, Target: int64(k.Target), Priority: k.Priority,
		Alone: k.Alone, Unmeasured: k.Unmeasured,
	}
	t.write(traceLine{Op: "submit", At: now, Version: id, Task: &task, Limit: limit, Out: traceOut{ID: int64(h)}}, acts, err)
}

func (t *trace) cancel(now Time, h Handle, acts []Action) {
	if t != nil {
		t.write(traceLine{Op: "cancel", At: now, Handle: h}, acts, nil)
	}
}

func (t *trace) next(now Time, lane LaneID, ok bool, b *Batch, acts []Action) {
	if t == nil {
		return
	}
	l := traceLine{Op: "next", At: now, Lane: lane}
	if ok {
		batch := traceBatch{Version: b.Version, Padded: b.Padded, Alone: b.Alone, Reason: b.Reason.String()}
		for i := range b.Spans {
			s := &b.Spans[i]
			batch.Spans = append(batch.Spans, traceSpan{Task: s.task, First: s.First, Rows: s.Rows})
		}
		l.Out.Batch = &batch
	}
	t.write(l, acts, nil)
}

func (t *trace) settle(now Time, lane LaneID, b *Batch, r Report, ev BatchEvent, acts []Action) {
	if t == nil {
		return
	}
	report, event := r, ev // else r and ev themselves would be allocated, trace or not
	l := traceLine{Op: "settle", At: now, Lane: lane, Report: &report, Out: traceOut{Event: &event}}
	for i := range b.Spans {
		if b.Spans[i].Err != nil {
			l.Failed = append(l.Failed, i)
		}
	}
	t.write(l, acts, nil)
}
