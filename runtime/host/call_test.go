package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// crowd makes so many calls from several goroutines, and fails the test unless some of them shared executions.
func crowd(t *testing.T, n int, call func(i int) (sharedsched.Outcome, error)) {
	t.Helper()
	var shared atomic.Int32
	for range 50 { // on a busy machine calls may come one by one for a while
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := g; i < n; i += 8 {
					out, err := call(i)
					if err != nil {
						t.Errorf("call %d: %v", i, err)
						return
					}
					if out.BatchRequests > 1 {
						shared.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if shared.Load() > 0 || t.Failed() {
			return
		}
	}
	t.Error("no two calls ever shared an execution, so the test shows nothing")
}

// slowly makes a model's runs so long that others queue up behind it.
func slowly(f *fake) *fake {
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
		}
		return run(b)
	}
	return f
}

func TestConcurrentCalls(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		w := newWorld(t, lanes)
		w.add("m", 1, slowly(perRow(2, double)), nil)
		v := w.load("m")
		crowd(t, 2000, func(i int) (sharedsched.Outcome, error) {
			rows := 1 + i%5
			in := make([]float32, 2*rows)
			for k := range in {
				in[k] = float32(i*100 + k)
			}
			c := ask(v, rows, in...)
			if err := w.Predict(t.Context(), c); err != nil {
				return c.Outcome, err
			}
			for k, y := range values(c.Results[0]) {
				if y != 2*in[k] {
					return c.Outcome, fmt.Errorf("value %d is %v, want %v", k, y, 2*in[k])
				}
			}
			if diff := cmp.Diff(tensor.Shape{int64(rows), 2}, c.Results[0].Shape); diff != "" {
				return c.Outcome, fmt.Errorf("shape (-want +got):\n%s", diff)
			}
			return c.Outcome, nil
		})
	}
}

// TestRowsInTheMiddle: the rows of state and next are in dimension 1, and rate is shared by a batch, which must never
// mix two rates.
func TestRowsInTheMiddle(t *testing.T) {
	f := slowly(recurrent())
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	v := w.load("m")
	crowd(t, 1000, func(i int) (sharedsched.Outcome, error) {
		rows, rate := 1+i%3, float32(i%4)
		x, state := make([]float32, 2*rows), make([]float32, 6*rows)
		for k := range x {
			x[k] = float32(i + k)
		}
		for k := range state {
			state[k] = float32(1000*i + k)
		}
		c := &catalog.Call{Version: v, Rows: rows, Inputs: []tensor.Tensor{
			floats(tensor.Shape{int64(rows), 2}, x...), floats(tensor.Shape{3, int64(rows), 2}, state...),
			floats(nil, rate),
		}}
		if err := w.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		y, next := values(c.Results[0]), values(c.Results[1])
		for k := range y {
			if want := x[k]*rate + state[k]; y[k] != want {
				return c.Outcome, fmt.Errorf("y[%d] is %v, want %v", k, y[k], want)
			}
		}
		for k := range next {
			if next[k] != state[k]+1 {
				return c.Outcome, fmt.Errorf("next[%d] is %v, want %v", k, next[k], state[k]+1)
			}
		}
		return c.Outcome, nil
	})
}

// shouting is in [?, 2] strings → out [?, 2], the elements in upper case and twice, and first [?], each row's first
// element.
func shouting() *fake {
	return &fake{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{spec("in", tensor.String, tensor.Unknown, 2)},
			Outputs: []tensor.Spec{
				spec("out", tensor.String, tensor.Unknown, 2),
				spec("first", tensor.String, tensor.Unknown),
			},
		},
		Answer: func(b *tensor.Batch) error {
			all := texts(b.Inputs[0])
			var first []string
			for i := range all {
				all[i] = strings.ToUpper(all[i]) + all[i]
				if i%2 == 0 {
					first = append(first, all[i])
				}
			}
			out, f := words(b.Inputs[0].Shape, all...), words(b.Inputs[0].Shape[:1], first...)
			copy(b.Output(0, out.DType, out.Shape, len(out.Data)), out.Data)
			copy(b.Output(1, f.DType, f.Shape, len(f.Data)), f.Data)
			return nil
		},
	}
}

func TestStrings(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, slowly(shouting()), nil)
	v := w.load("m")
	if !v.Batching.Batched {
		t.Fatal(v.Batching.Reason)
	}
	crowd(t, 500, func(i int) (sharedsched.Outcome, error) {
		rows := 1 + i%4
		if i%50 == 0 {
			rows = 150 // split
		}
		var in, out, first []string
		for k := range 2 * rows {
			in = append(in, strings.Repeat("a", (i+k)%7))
			out = append(out, strings.ToUpper(in[k])+in[k])
			if k%2 == 0 {
				first = append(first, out[k])
			}
		}
		c := &catalog.Call{Version: v, Rows: rows, Inputs: []tensor.Tensor{words(tensor.Shape{int64(rows), 2}, in...)}}
		if err := w.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		if diff := cmp.Diff(out, texts(c.Results[0])); diff != "" {
			return c.Outcome, fmt.Errorf("out (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(first, texts(c.Results[1])); diff != "" {
			return c.Outcome, fmt.Errorf("first (-want +got):\n%s", diff)
		}
		return c.Outcome, nil
	})
}

func TestLargeRequestsAreSplitAndRejoined(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		w := newWorld(t, lanes)
		f := slowly(perRow(3, double))
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = config.Duration(time.Minute) })
		v := w.load("m")
		f.Forget()
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				in := make([]float32, 3*200)
				for k := range in {
					in[k] = float32(10000*g + k)
				}
				c := ask(v, 200, in...)
				if err := w.Predict(t.Context(), c); err != nil {
					t.Error(err)
					return
				}
				if c.Outcome.Executions < 4 {
					t.Errorf("200 rows took %d executions of at most 64", c.Outcome.Executions)
				}
				for k := range in {
					in[k] *= 2
				}
				if diff := cmp.Diff(in, values(c.Results[0])); diff != "" {
					t.Errorf("values (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tensor.Shape{200, 3}, c.Results[0].Shape); diff != "" {
					t.Errorf("shape (-want +got):\n%s", diff)
				}
			})
		}
		wg.Wait()
		if runs := f.Forget(); slices.Max(runs) > 64 {
			t.Errorf("runs of %v rows, want at most 64", runs)
		}
	}
}

// TestSplitRequestWhosePartsDoNotFitTogether has a model whose output is as wide as the largest value of the batch. The
// request is run as a whole.
func TestSplitRequestWhosePartsDoNotFitTogether(t *testing.T) {
	f := &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, 1)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, tensor.Unknown)},
		},
		Answer: func(b *tensor.Batch) error {
			width := int64(slices.Max(values(b.Inputs[0])))
			y := floats(tensor.Shape{b.Inputs[0].Shape[0], max(width, 1)},
				make([]float32, b.Inputs[0].Shape[0]*max(width, 1))...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.Mode, m.Batching.MaxBatchSize = modelrepo.BatchOn, 2 })
	v := w.load("m")
	c := ask(v, 3, 1, 2, 3)
	if err := w.Predict(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if shape := c.Results[0].Shape; !slices.Equal(shape, tensor.Shape{3, 3}) || c.Outcome.Executions != 3 {
		t.Errorf("the shape is %v after %d executions, want that of the whole request", shape, c.Outcome.Executions)
	}
	if err := w.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `output "y" cannot be joined: rows 2 to 2 give the shape [1,3], the first 2 rows [2,2]`
	out := w.logs.Event(takenOut)
	if w.sched.State().Versions[0].Settings.Batched || len(out) == 0 ||
		!strings.Contains(weftest.Attr(out[0], "cause").String(), want) {
		t.Errorf("it is not taken out of batching because %s", want)
	}
}

func TestWantedOutputs(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, shouting(), nil)
	v := w.load("m")
	for _, rows := range []int{1, 100} {
		in := words(tensor.Shape{int64(rows), 2}, slices.Repeat([]string{"a", "b"}, rows)...)
		c := &catalog.Call{Version: v, Rows: rows, Inputs: []tensor.Tensor{in}, Wanted: []int{1}}
		if err := w.Predict(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if len(c.Results) != 1 {
			t.Fatalf("%d results, want 1", len(c.Results))
		}
		if diff := cmp.Diff(slices.Repeat([]string{"Aa"}, rows), texts(c.Results[0])); diff != "" {
			t.Errorf("first (-want +got):\n%s", diff)
		}
	}
}

// TestResultsAreTheCallers: neither a later run nor unloading changes an answer, and inputs are never written.
func TestResultsAreTheCallers(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, perRow(2, double), nil)
	v := w.load("m")
	c := ask(v, 1, 1, 2)
	for range 2 {
		if err := w.Predict(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		first := c.Results[0]
		if err := w.Predict(t.Context(), ask(v, 2, 7, 8, 9, 10)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{2, 4}, values(first)); diff != "" {
			t.Errorf("the answer changed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]float32{1, 2}, values(c.Inputs[0])); diff != "" {
			t.Errorf("the input changed (-want +got):\n%s", diff)
		}
	}
	if err := w.Unload(t.Context(), "m", 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{2, 4}, values(c.Results[0])); diff != "" {
		t.Errorf("after unloading (-want +got):\n%s", diff)
	}
}

func TestFixedBatchTakesItsRowsOnly(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, fixed(2, 1), nil)
	v := w.load("m")
	in := floats(tensor.Shape{2, 1}, 1, 10)
	rows, err := v.Signature.Rows([]tensor.Tensor{in})
	if err != nil || rows != 1 {
		t.Fatalf("rows %d, error %v; a request of a fixed batch counts as one row", rows, err)
	}
	if _, err := v.Signature.Rows([]tensor.Tensor{floats(tensor.Shape{1, 1}, 1)}); err == nil {
		t.Error("one row was accepted where the model takes two")
	}
	c := &catalog.Call{Version: v, Rows: rows, Inputs: []tensor.Tensor{in}}
	if err := w.Predict(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{11, 10}, values(c.Results[0])); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// TestUnprovenRunsWhole: a request of several rows is one execution, and nobody joins it.
func TestUnprovenRunsWhole(t *testing.T) {
	f := slowly(overRows(1, func(rows [][]float32) error {
		for _, r := range rows[1:] {
			rows[0][0] += r[0]
		}
		return nil
	}))
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	v := w.load("m")
	if v.Batching.Batched {
		t.Fatal(v.Batching.Reason)
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			in := slices.Repeat([]float32{float32(i)}, 70)
			c := ask(v, 70, in...)
			if err := w.Predict(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			in[0] *= 70
			if diff := cmp.Diff(in, values(c.Results[0])); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if c.Outcome.BatchRequests != 1 || c.Outcome.Executions != 1 {
				t.Errorf("%d requests in %d executions", c.Outcome.BatchRequests, c.Outcome.Executions)
			}
		})
	}
	wg.Wait()
}

// TestErrorsOfTheScheduler come out as they are.
func TestErrorsOfTheScheduler(t *testing.T) {
	w := newWorld(t, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	f := perRow(1, double)
	run, block := f.Answer, false
	f.Answer = func(b *tensor.Batch) error {
		if block {
			entered <- struct{}{}
			<-release
		}
		return run(b)
	}
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxQueue, m.Batching.MaxRequestRows = 1, 100 })
	v := w.load("m")
	block = true

	if err := w.Predict(t.Context(), ask(v, 101, make([]float32, 101)...)); !errors.Is(err,
		sharedsched.ErrTooManyRows) {
		t.Errorf("101 rows: %v", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(release)
	wg.Go(func() { _ = w.Predict(t.Context(), ask(v, 1, 1)) })
	<-entered

	superseded := errors.New("superseded")
	ctx, cancel := context.WithCancelCause(t.Context())
	queued := make(chan error)
	wg.Go(func() { queued <- w.Predict(ctx, ask(v, 1, 1)) })
	weftest.Until(t, "one queued", func() bool { return w.sched.State().Versions[0].Queued > 0 })
	refusal := (*sharedsched.Refusal)(nil)
	if err := w.Predict(t.Context(), ask(v, 1, 1)); !errors.As(err, &refusal) ||
		refusal.Reason != sharedsched.RefusedQueueFull {
		t.Errorf("one more than the queue holds: %v", err)
	}
	cancel(superseded)
	if err := <-queued; !errors.Is(err, superseded) {
		t.Errorf("cancelled in the queue: %v", err)
	}
}

// expired returns a context that has ended.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestSharedOutputIsNotTrusted: an output without rows would go from one caller to another, whatever the manifest says.
func TestSharedOutputIsNotTrusted(t *testing.T) {
	f := &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, 2)},
		},
		Answer: func(b *tensor.Batch) error {
			y := floats(tensor.Shape{2}, values(b.Inputs[0])[0], 1)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn })
	v := w.load("m")
	if v.State != catalog.Failed || !strings.Contains(v.Cause, `output "y" has no batch dimension`) {
		t.Errorf("state %v, cause %q", v.State, v.Cause)
	}
}
