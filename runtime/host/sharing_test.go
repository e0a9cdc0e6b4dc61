package host_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// valve makes the runs of a model wait, once it is closed.
type valve struct {
	closed  bool
	entered chan struct{} // a run has begun
	open    chan struct{} // a run may go on
}

func withValve(f *fake) *valve {
	v := &valve{entered: make(chan struct{}), open: make(chan struct{})}
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		if v.closed {
			v.entered <- struct{}{}
			<-v.open
		}
		return run(b)
	}
	return v
}

// TestDeviceTimeIsSharedByRowsPaddingIncluded: of a batch of 3 rows padded to 4, each request pays for its rows and its
// part of the padding, so that the shares add up to what the device was used.
func TestDeviceTimeIsSharedByRowsPaddingIncluded(t *testing.T) {
	f := slowly(eachRow(doubled))
	v := withValve(f)
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) {
		buckets(8)(m)
		m.Batching.MaxBatchSize, m.Batching.AllowedBatchSizes = 4, []int{1, 4}
		m.Batching.MaxBatchCost = config.Duration(time.Minute)
	})
	version := w.load("m")
	if version.Signature.Inputs[0].Variable.Buckets == nil {
		t.Fatal(version.Batching.Reason)
	}
	v.closed = true

	var wg sync.WaitGroup
	defer wg.Wait()
	send := func(c *catalog.Call) {
		wg.Go(func() {
			if err := w.Predict(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	send(ask(version, 1, 1))
	<-v.entered
	one, two := ask(version, 1, 1, 2, 3), ask(version, 2, 4, 5, 6, 7)
	send(one)
	send(two)
	weftest.Until(t, "two queued", func() bool { return w.sched.State().Versions[0].Queued >= 2 })
	v.open <- struct{}{}
	<-v.entered
	v.open <- struct{}{}
	wg.Wait()

	batch := w.batches.wait(t, func(e sharedsched.BatchEvent) bool { return e.Tasks == 2 })
	if batch.Rows != 3 || batch.Padded != 4 || batch.DeviceTime <= 0 {
		t.Fatalf("the batch: %+v", batch)
	}
	for _, c := range []*catalog.Call{one, two} {
		want := batch.DeviceTime * time.Duration(c.Rows) / 3
		if far := (c.Outcome.DeviceTime - want).Abs(); far > 1 {
			t.Errorf("%d rows were charged %v of %v, want %v", c.Rows, c.Outcome.DeviceTime, batch.DeviceTime, want)
		}
		if c.Outcome.PaddedRows != 1 || c.Outcome.BatchRows != 3 {
			t.Errorf("%d rows: outcome %+v", c.Rows, c.Outcome)
		}
	}
	if total := one.Outcome.DeviceTime + two.Outcome.DeviceTime; total > batch.DeviceTime ||
		total < batch.DeviceTime-2 {
		t.Errorf("the shares sum to %v, the device was used for %v", total, batch.DeviceTime)
	}
}

// TestMaxLatencyIsALimit: a request that brings no deadline is dropped from the queue when the model's max_latency has
// passed, and never executed; one that brings a later deadline waits for that.
func TestMaxLatencyIsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := perRow(1, double)
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			time.Sleep(time.Millisecond)
			return run(b)
		}
		v := withValve(f)
		w := newWorld(t, 1)
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.MaxLatency = config.Duration(50 * time.Millisecond) })
		version := w.load("m")
		f.Forget()
		v.closed = true

		var wg sync.WaitGroup
		wg.Go(func() { _ = w.Predict(t.Context(), ask(version, 1, 1)) })
		<-v.entered
		arrival := time.Now()
		wg.Go(func() {
			err := w.Predict(t.Context(), ask(version, 1, 2))
			if !errors.Is(err, sharedsched.ErrExpired) || time.Since(arrival) != 50*time.Millisecond {
				t.Errorf("without a deadline: %v after %v, want that it expired after 50ms", err, time.Since(arrival))
			}
		})
		patient := ask(version, 1, 3)
		patient.Limit = arrival.Add(time.Minute)
		wg.Go(func() {
			if err := w.Predict(t.Context(), patient); err != nil {
				t.Errorf("with a deadline in a minute: %v", err)
			}
		})
		time.Sleep(time.Second)
		v.open <- struct{}{}
		<-v.entered
		v.open <- struct{}{}
		wg.Wait()
		if diff := cmp.Diff([]int{1, 1}, f.Forget()); diff != "" {
			t.Errorf("rows of runs (-want +got):\n%s", diff)
		}
	})
}

// TestBatchDimOfEachInputAndOutput has the rows in dimension 1 of x, 0 of y and 2 of z, which only the manifest knows.
func TestBatchDimOfEachInputAndOutput(t *testing.T) {
	const width = 3
	f := &fake{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown)},
			Outputs: []tensor.Spec{
				spec("y", tensor.Float32, tensor.Unknown, tensor.Unknown),
				spec("z", tensor.Float32, 1, tensor.Unknown, tensor.Unknown),
			},
		},
		Answer: func(b *tensor.Batch) error {
			x, rows := values(b.Inputs[0]), b.Inputs[0].Shape[1]
			if b.Inputs[0].Shape[0] != width {
				return fmt.Errorf("shape %v", b.Inputs[0].Shape)
			}
			across := make([]float32, len(x))
			for i := range rows {
				for k := range int64(width) {
					across[i*width+k] = x[k*rows+i]
				}
			}
			y, z := floats(tensor.Shape{rows, width}, across...), floats(tensor.Shape{1, width, rows}, x...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			copy(b.Output(1, z.DType, z.Shape, len(z.Data)), z.Data)
			return nil
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, slowly(f), func(m *modelrepo.Manifest) {
		m.Batching.Mode = modelrepo.BatchOn // no made-up width is 3
		m.Batching.BatchDim = modelrepo.BatchDim{
			Inputs:  map[string]int{"x": 1},
			Outputs: map[string]int{"y": 0, "z": 2},
		}
	})
	v := w.load("m")
	crowd(t, 1000, func(i int) (sharedsched.Outcome, error) {
		rows := int64(1 + i%4)
		if i%100 == 0 {
			rows = 130 // split
		}
		x := make([]float32, width*rows)
		for k := range x {
			x[k] = float32(1000*i + k)
		}
		c := &catalog.Call{
			Version: v, Rows: int(rows),
			Inputs: []tensor.Tensor{floats(tensor.Shape{width, rows}, x...)},
		}
		if err := w.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		y := make([]float32, len(x))
		for k := range y {
			y[k] = x[int64(k)%width*rows+int64(k)/width]
		}
		want := []tensor.Tensor{floats(tensor.Shape{rows, width}, y...), floats(tensor.Shape{1, width, rows}, x...)}
		if diff := cmp.Diff(want, c.Results); diff != "" {
			return c.Outcome, fmt.Errorf("(-want +got):\n%s", diff)
		}
		return c.Outcome, nil
	})
}

// TestBatchingOffIsPerModel: of two equal models the one whose manifest says off runs every request by itself.
func TestBatchingOffIsPerModel(t *testing.T) {
	w := newWorld(t, 1)
	w.add("off", 1, slowly(perRow(1, double)), func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff })
	w.add("on", 1, slowly(perRow(1, double)), nil)
	w.load("on")
	versions := []*catalog.Version{w.version("off", 1), w.version("on", 1)}
	crowd(t, 1000, func(i int) (sharedsched.Outcome, error) {
		c := ask(versions[i/8%2], 2, float32(i), float32(-i))
		if err := w.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		if diff := cmp.Diff([]float32{float32(2 * i), float32(-2 * i)}, values(c.Results[0])); diff != "" {
			return c.Outcome, fmt.Errorf("(-want +got):\n%s", diff)
		}
		if o := c.Outcome; c.Version.Model == "off" &&
			(o.BatchRequests != 1 || o.Executions != 1 || o.Reason != sharedsched.FlushUnbatched) {
			return o, fmt.Errorf("a request to the model without batching: %+v", o)
		}
		return c.Outcome, nil
	})
}

// TestUnbatchedInputsAreNeverMixed: bias [?] has an open first dimension, but no rows. Requests with other biases, also
// such of other length, never share an execution; those with equal ones do.
func TestUnbatchedInputsAreNeverMixed(t *testing.T) {
	f := perRow(1, double)
	f.Declared.Inputs = append(f.Declared.Inputs, spec("bias", tensor.Float32, tensor.Unknown))
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		if err := run(b); err != nil {
			return err
		}
		y := values(b.Outputs[0])
		for i := range y {
			for _, v := range values(b.Inputs[1]) {
				y[i] += v
			}
		}
		copy(b.Outputs[0].Data, floats(nil, y...).Data)
		return nil
	}
	w := newWorld(t, 1)
	w.add("m", 1, slowly(f), func(m *modelrepo.Manifest) { m.Batching.Unbatched = []string{"bias"} })
	v := w.load("m")
	if !v.Batching.Batched {
		t.Fatal(v.Batching.Reason)
	}
	crowd(t, 1000, func(i int) (sharedsched.Outcome, error) {
		bias := [][]float32{{1}, {2}, {1, 1, 1}}[i%3]
		c := ask(v, 2, float32(i), float32(i+1))
		c.Inputs = append(c.Inputs, floats(tensor.Shape{int64(len(bias))}, bias...))
		if err := w.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		add := float32(1 + i%3)
		if diff := cmp.Diff([]float32{2*float32(i) + add, 2*float32(i+1) + add}, values(c.Results[0])); diff != "" {
			return c.Outcome, fmt.Errorf("(-want +got):\n%s", diff)
		}
		return c.Outcome, nil
	})
}

var _ shell.Observer = (*batches)(nil)
