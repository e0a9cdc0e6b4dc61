package execution

import (
	"errors"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// anyBytes is x [?] → y [?] of bytes.
var anyBytes = tensor.Signature{
	Inputs:  []tensor.Spec{weftest.Spec("x", tensor.Uint8, tensor.Unknown)},
	Outputs: []tensor.Spec{weftest.Spec("y", tensor.Uint8, tensor.Unknown)},
}

// owner keeps the findings that it hears.
type owner struct {
	lost        bool
	usual, most time.Duration // that a run may take
	found       []Finding
	hangs       atomic.Int32
}

func (o *owner) Lost() bool                               { return o.lost }
func (o *owner) Found(f Finding)                          { o.found = append(o.found, f) }
func (o *owner) Patience(int) (usual, most time.Duration) { return o.usual, o.most }
func (o *owner) Hangs(by int)                             { o.hangs.Add(int32(by)) }

// batched returns a unit whose plan joins up to eight rows.
func batched(run func(b *tensor.Batch) error) (*Unit, *owner) {
	o := &owner{}
	loaded := Load(engine.Opened{Session: &weftest.Engine{Declared: anyBytes, Answer: run}})
	u := &Unit{Model: "m", Version: 1, Loaded: loaded, Owner: o, Log: slog.New(slog.DiscardHandler)}
	joined := anyBytes.Clone()
	joined.Inputs[0].BatchDim, joined.Outputs[0].BatchDim = 0, 0
	p := NewPlan(joined, 0)
	p.Batched, p.Most = true, 8
	u.Follow(p)
	return u, o
}

// oneRow is a request of one byte.
func oneRow(u *Unit, value byte) *Job {
	x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{value}}
	return &Job{Unit: u, Rows: 1, Inputs: []tensor.Tensor{x}}
}

// together executes a batch of requests of one byte each, and returns how each ended.
func together(u *Unit, values ...byte) (answers []string, r sharedsched.Report) {
	b := &sharedsched.Batch{Rows: len(values), Padded: len(values)}
	jobs := make([]*Job, len(values))
	for i, v := range values {
		jobs[i] = oneRow(u, v)
		b.Spans = append(b.Spans, sharedsched.Span{Payload: jobs[i], Rows: 1})
	}
	r = Execute(b)
	for i, j := range jobs {
		if err := b.Spans[i].Err; err != nil {
			answers = append(answers, err.Error())
			continue
		}
		outputs, err := j.Join()
		if err != nil {
			answers = append(answers, err.Error())
			continue
		}
		answers = append(answers, string(outputs[0].Data))
	}
	return answers, r
}

// echo answers with the input, and fails on a '!'.
func echo(b *tensor.Batch) error {
	in := b.Inputs[0]
	if slices.Contains(in.Data, '!') {
		return errors.New("no exclamations")
	}
	copy(b.Output(0, in.DType, in.Shape, len(in.Data)), in.Data)
	return nil
}

// TestOwnerHears: a finding about the unit itself is reported once, and a lost unit does not run any more.
func TestOwnerHears(t *testing.T) {
	lost := &engine.Error{Kind: engine.DeviceLost, Err: errors.New("fell off the bus")}
	u, o := batched(func(*tensor.Batch) error { return lost })
	if _, report := together(u, 'a', 'b'); report.Failure != sharedsched.LostDevice || report.Reruns != 0 {
		t.Errorf("report %+v", report)
	}
	if len(o.found) != 1 || !errors.Is(o.found[0].Lost, lost) || o.found[0].Rowless != nil {
		t.Errorf("found %v", o.found)
	}
	o.lost = true
	got, report := together(u, 'a')
	if got[0] != sharedsched.ErrRemoved.Error() || report.Failure != sharedsched.LostDevice || len(o.found) != 1 {
		t.Errorf("on a lost device: answers %q, report %+v, found %v", got, report, o.found)
	}
}

// TestProfilesTellModels: a profile that is taken while a batch runs says whose it is.
func TestProfilesTellModels(t *testing.T) {
	var profile strings.Builder
	u, _ := batched(func(b *tensor.Batch) error {
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Error(err)
		}
		return echo(b)
	})
	done := make(chan struct{})
	go func() { // like a batch thread: this one keeps its labels
		defer close(done)
		together(u, 'a')
	}()
	<-done
	if want := `labels: {"model":"m", "part":"batch", "version":"1"}`; !strings.Contains(profile.String(), want) {
		t.Errorf("no %s in\n%s", want, profile.String())
	}
}
