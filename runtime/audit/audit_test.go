package audit

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// alone is a replica on which nothing else runs.
type alone struct {
	unit    *execution.Unit
	fails   error   // ends rows that are run again, if not nil
	errs    []error // ends the next of them each, if there is one, and nil none
	took    func(rows int) time.Duration
	tasks   []sharedsched.Task // of rows that were run again
	other   Replica
	demoted []string
}

func (a *alone) Lost() bool              { return false }
func (a *alone) Found(execution.Finding) {}

func (a *alone) Patience(int) (usual, most time.Duration) { return 0, 0 }
func (a *alone) Hangs(int)                                {}
func (a *alone) Plan() *execution.Plan                    { return a.unit.Plan() }
func (a *alone) Another() Replica                         { return a.other }
func (a *alone) Demote(why string)                        { a.demoted = append(a.demoted, why) }
func (a *alone) bare() *tensor.Signature                  { return a.unit.Plan().Signature }
func (a *alone) job(values ...float32) *execution.Job {
	x := weftest.Floats(tensor.Shape{1, int64(len(values))}, values...)
	return &execution.Job{Unit: a.unit, Rows: 1, Inputs: []tensor.Tensor{x}}
}

func (a *alone) Run(_ context.Context, j *execution.Job) (sharedsched.Outcome, error) {
	j.Unit = a.unit
	a.tasks = append(a.tasks, j.Task)
	fails := a.fails
	if len(a.errs) > 0 {
		fails, a.errs = a.errs[0], a.errs[1:]
	}
	took := time.Millisecond
	if a.took != nil {
		took = a.took(j.Rows)
	}
	return sharedsched.Outcome{DeviceTime: took}, errors.Join(fails, execute(j))
}

// execute runs jobs of one row each, or one of several, in one execution.
func execute(jobs ...*execution.Job) error {
	b := &sharedsched.Batch{}
	for _, j := range jobs {
		b.Spans = append(b.Spans, sharedsched.Span{Payload: j, Rows: j.Rows})
		b.Rows += j.Rows
	}
	b.Padded = b.Rows
	execution.Execute(b)
	return b.Spans[0].Err
}

// newAlone returns a replica of a model x [?, 1] → y [?, 1] whose rows are joined, up to eight.
func newAlone(e *weftest.Engine, trusted bool) *alone {
	a := &alone{}
	loaded := execution.Load(engine.Opened{Session: e})
	a.unit = &execution.Unit{Model: "m", Version: 1, Loaded: loaded, Owner: a, Log: slog.New(slog.DiscardHandler)}
	joined := e.Declared.Clone()
	joined.Inputs[0].BatchDim, joined.Outputs[0].BatchDim = 0, 0
	p := execution.NewPlan(joined, 0)
	p.Batched, p.Most, p.Watch = true, 8, execution.Watch{Share: 1, Trusted: trusted}
	a.unit.Follow(p)
	return a
}

// TestMemoryMakesRoom where rows wait: the oldest first, never one that is being audited.
func TestMemoryMakesRoom(t *testing.T) {
	var m Memory
	cfg := &Config{Memory: &m}
	audited, first, second := New(cfg, "m", 1, nil), New(cfg, "m", 2, nil), New(cfg, "m", 3, nil)
	now := time.Now()
	for i, a := range []*Auditor{audited, second, first} {
		if !m.Reserve(10) {
			t.Fatal("there is no room")
		}
		a.keep(&row{bytes: 10, since: now.Add(-time.Duration(i) * time.Second)})
	}
	m.swap(audited, nil)
	if !m.Reserve(MemoryLimit-30+5) || first.kept.Load() != nil || second.kept.Load() == nil || m.Held() != MemoryLimit-5 {
		t.Errorf("%d bytes are held; want what waited longest to be dropped", m.Held())
	}
	if m.Reserve(16) || second.kept.Load() != nil || m.Held() != MemoryLimit-15 {
		t.Errorf("%d bytes are held; want all that waits to be dropped, and nothing to be taken", m.Held())
	}
}

// TestCopiesThatTakeTooMuchMemory show nothing about the row: only an execution of one ends the audits.
func TestCopiesThatTakeTooMuchMemory(t *testing.T) {
	for _, single := range []bool{false, true} {
		r := newAlone(weftest.OverRows(1, func([][]float32) error { return nil }), false)
		r.fails = &catalog.ModelError{Model: "m", Version: 1, Crashed: true, Exceeded: 1, Err: errors.New("too much")}
		auditor := New(&Config{Memory: &Memory{}, Log: slog.New(slog.DiscardHandler)}, "m", 1, func() {})
		k := &row{replica: r, bare: r.bare(), inputs: r.job(1).Inputs, bytes: 4}
		k.Size = 8
		if _, err := auditor.again(t.Context(), k, single, sharedsched.Task{}); err == nil {
			t.Fatal("the run did not fail")
		}
		if k.crashed != single || (auditor.Remarks() != "") != single {
			t.Errorf("alone %t: crashed %t, remarks %q", single, k.crashed, auditor.Remarks())
		}
	}
}
