package host_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// moded is scalars with a mode, an integer, whose runs take so long that requests queue up behind them.
func moded(meet func(mode int64) bool) *fake {
	return slowly(scalars([]tensor.Spec{spec("mode", tensor.Int64)},
		func(b *tensor.Batch) bool { return meet(integersOf(b.Inputs[1])[0]) }))
}

// answerTo returns the answer that a request gets alone.
func answerTo(c *catalog.Call, meet func(mode int64) bool) []float32 {
	x := values(c.Inputs[0])
	if c.Rows == 1 || !meet(integersOf(c.Inputs[1])[0]) {
		return x
	}
	total := float32(0)
	for _, v := range x {
		total += v
	}
	for i := range x {
		x[i] += total
	}
	return x
}

// askMode makes a call of so many rows.
func askMode(v *catalog.Version, rows int, mode int64, first float32) *catalog.Call {
	x := make([]float32, 2*rows)
	for i := range x {
		x[i] = first + float32(i)
	}
	return &catalog.Call{
		Version: v, Rows: rows,
		Inputs: []tensor.Tensor{floats(tensor.Shape{int64(rows), 2}, x...), int64s(nil, mode)},
	}
}

// modes asks from many callers at once, each with one of the modes in turn, and returns how many answers were wrong and
// how many requests shared an execution, by mode.
func (w *world) modes(v *catalog.Version, meet func(mode int64) bool, callers, each int,
	modes ...int64,
) (wrong int64, shared map[int64]int) {
	w.t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	var bad atomic.Int64
	shared = map[int64]int{}
	for c := range callers {
		group.Go(func() {
			for n := range each {
				mode := modes[(c+n)%len(modes)]
				call := askMode(v, 1+c%3, mode, float32(1000*c+n))
				if err := w.Predict(w.t.Context(), call); err != nil {
					w.t.Error(err)
					return
				}
				if !slices.Equal(values(call.Results[0]), answerTo(call, meet)) {
					bad.Add(1)
				}
				if call.Outcome.BatchRequests > 1 {
					mu.Lock()
					shared[mode]++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return bad.Load(), shared
}

// TestValuesAreProvenBeforeTheyAreJoined: requests that bring the same value for an input without rows share executions
// only once that value was proven with their rows. Modes that no made-up example has meddle with rows: nobody gets a
// wrong answer, and when that is found the version is out of batching.
func TestValuesAreProvenBeforeTheyAreJoined(t *testing.T) {
	meet := func(mode int64) bool { return mode == 4242 }
	w := newWorld(t, 1)
	w.add("m", 1, moded(meet), nil)
	v := w.load("m")
	if !v.Batching.Batched {
		t.Fatalf("not batched: %s", v.Batching.Reason)
	}
	wrong, shared := w.modes(v, meet, 16, 100, 5, 4, 55)
	if wrong > 0 {
		t.Errorf("%d answers are wrong", wrong)
	}
	for _, mode := range []int64{5, 4, 55} {
		if shared[mode] == 0 {
			t.Errorf("no two requests with the mode %d ever shared an execution", mode)
		}
	}
	wrong, shared = w.modes(v, meet, 16, 100, 5, 4242, 4242)
	if wrong > 0 || shared[4242] > 0 {
		t.Fatalf("%d answers are wrong, and %d requests with the mode 4242 shared executions", wrong, shared[4242])
	}
	w.until(func() bool { return !w.version("m", 1).Batching.Batched })
	if b := w.version("m", 1).Batching; !strings.Contains(b.Reason,
		`with what a request brought for "mode", output "y" of a row`) {
		t.Errorf("it is out of batching because: %s", b.Reason)
	}
	if wrong, shared = w.modes(v, meet, 16, 20, 5); wrong > 0 || shared[5] > 0 {
		t.Errorf("afterwards %d answers are wrong, and %d requests shared executions", wrong, shared[5])
	}
}

// until waits for an effect of a background proof.
func (w *world) until(is func() bool) {
	w.t.Helper()
	for !is() {
		changed := w.Changed("m")
		if is() {
			return
		}
		select {
		case <-changed:
		case <-w.t.Context().Done():
			w.t.Fatal("it never came to be")
		}
	}
}

// TestValuesThatNeverComeBack are not proven: their requests run alone, and nothing else is run for them.
func TestValuesThatNeverComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scalars([]tensor.Spec{spec("mode", tensor.Int64)}, func(*tensor.Batch) bool { return false })
		w := newWorld(t, 1)
		w.add("m", 1, f, nil)
		v := w.load("m")
		f.Forget()
		for mode := range int64(300) {
			if err := w.Predict(t.Context(), askMode(v, 1, 1000+mode, 1)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(f.Forget()); n != 300 {
			t.Errorf("300 requests took %d runs", n)
		}
		// The first of them was forgotten, and comes for the first time again. The last was not.
		for _, mode := range []int64{1000, 1299} {
			if err := w.Predict(t.Context(), askMode(v, 1, mode, 1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := len(f.Forget()); (n > 1) != (mode == 1299) {
				t.Errorf("a request with the mode %d took %d runs", mode, n)
			}
		}
	})
}

// TestUnprovenValuesRunAsTheyCame: until its value is proven nothing is added to a request and nothing taken away,
// whatever sizes are allowed; then it is filled up and split.
func TestUnprovenValuesRunAsTheyCame(t *testing.T) {
	const meets, harmless = 4242, 4243
	meet := func(mode int64) bool { return mode == meets }
	for _, rows := range []int{1, 3, 8, 21} {
		synctest.Test(t, func(t *testing.T) {
			f := scalars([]tensor.Spec{spec("mode", tensor.Int64)},
				func(b *tensor.Batch) bool { return meet(integersOf(b.Inputs[1])[0]) })
			w := newWorld(t, 1)
			w.add("m", 1, f, func(m *modelrepo.Manifest) {
				m.Batching.AllowedBatchSizes,
					m.Batching.MaxBatchSize = []int{4, 8}, 8
			})
			v := w.load("m")
			if !v.Batching.Batched {
				t.Fatalf("not batched: %s", v.Batching.Reason)
			}
			f.Forget()
			asks := func(mode int64, first float32) (runs []int) {
				t.Helper()
				call := askMode(v, rows, mode, first)
				if err := w.Predict(t.Context(), call); err != nil {
					t.Fatal(err)
				}
				if got, right := values(call.Results[0]), answerTo(call, meet); !slices.Equal(got, right) {
					t.Errorf("%d rows with the mode %d: got %v, want %v", rows, mode, got, right)
				}
				return f.Forget()
			}
			for _, mode := range []int64{harmless, meets} {
				if runs := asks(mode, 1); !slices.Equal(runs, []int{rows}) {
					t.Errorf("%d rows with the mode %d: executions of %v rows", rows, mode, runs)
				}
				if runs := asks(mode, 2); !slices.Contains(runs, rows) { // besides those of the proof that it begins
					t.Errorf("%d rows with the mode %d: executions of %v rows", rows, mode, runs)
				}
				synctest.Wait()
				f.Forget()
				runs := asks(mode, 3)
				if padded := !slices.ContainsFunc(runs,
					func(size int) bool { return size != 4 && size != 8 }); mode == harmless && !padded {
					t.Errorf("%d rows with a mode that is proven: executions of %v rows", rows, runs)
				}
			}
			if w.version("m", 1).Batching.Batched {
				t.Errorf("%d rows: it is still batched", rows)
			}
		})
	}
}

// TestUnprovenValuesAreNotPadded: padding may change an answer under one value and under no other.
func TestUnprovenValuesAreNotPadded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mode := int64(0)
		f := eachRow(func(row []float32) []float32 {
			for i := range row {
				row[i] *= 2
				if mode == 4242 {
					row[i] += float32(len(row))
				}
			}
			return row
		})
		f.Declared.Inputs = append(f.Declared.Inputs, spec("mode", tensor.Int64))
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			mode = integersOf(b.Inputs[1])[0]
			return run(b)
		}
		w := newWorld(t, 1)
		w.add("m", 1, f, buckets(4, 8))
		v := w.load("m")
		if b := v.Batching; !b.Batched || !strings.Contains(b.Reason, "so is padding to") {
			t.Fatalf("%+v", b)
		}
		for range 3 { // the second begins the proof
			call := &catalog.Call{
				Version: v, Rows: 2,
				Inputs: []tensor.Tensor{floats(tensor.Shape{2, 3}, 1, 2, 3, 4, 5, 6), int64s(nil, 4242)},
			}
			if err := w.Predict(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			if got, want := values(call.Results[0]), []float32{5, 7, 9, 11, 13, 15}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			synctest.Wait()
		}
		if b := w.version("m", 1).Batching; b.Batched {
			t.Errorf("still batched: %s", b.Reason)
		}
	})
}

// TestUnprovenValuesTellWhatARowTakes: the expected cost of a version follows them, too.
func TestUnprovenValuesTellWhatARowTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scalars([]tensor.Spec{spec("mode", tensor.Int64)}, func(*tensor.Batch) bool { return false })
		w := newWorld(t, 1)
		w.add("m", 1, f, nil)
		v := w.load("m")
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			time.Sleep(8 * time.Millisecond)
			return run(b)
		}
		for mode := range int64(100) {
			if err := w.Predict(t.Context(), askMode(v, 2, 1000+mode, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if took := w.RowCost("m", 1); took < 3*time.Millisecond || took > 5*time.Millisecond {
			t.Errorf("a row is expected to take %v", took)
		}
	})
}

// TestRequestsOfManyModesAtOnce are never joined across values, whatever is being proven meanwhile.
func TestRequestsOfManyModesAtOnce(t *testing.T) {
	meet := func(mode int64) bool { return mode >= 3000 && mode%7 == 0 }
	w := newWorld(t, 3)
	w.add("m", 1, moded(meet), nil)
	v := w.load("m")
	if !v.Batching.Batched {
		t.Fatal(v.Batching.Reason)
	}
	var modes []int64
	for i := range int64(40) {
		modes = append(modes, 2990+i)
	}
	wrong, shared := w.modes(v, meet, 64, 40, modes...)
	if wrong > 0 {
		t.Errorf("%d answers are wrong", wrong)
	}
	t.Log(fmt.Sprint("shared executions, by mode: ", shared))
}

// TestAValueThatMemoryHidesIsNotProven: where no batch of the proof could be run, nothing is known of the value.
func TestAValueThatMemoryHidesIsNotProven(t *testing.T) {
	meet := func(mode int64) bool { return mode == 777 }
	f := moded(meet)
	run := f.Answer
	var short atomic.Bool
	tried := make(chan struct{}, 100)
	f.Answer = func(b *tensor.Batch) error {
		if short.Load() && b.Inputs[0].Shape[0] > 1 {
			tried <- struct{}{}
			return errMemory
		}
		return run(b)
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	v := w.load("m")
	short.Store(true)
	for range 2 { // the second request begins the proof
		if err := w.Predict(t.Context(), askMode(v, 1, 777, 5)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // its batches
		<-tried
	}
	short.Store(false)
	if wrong, shared := w.modes(v, meet, 16, 50, 777); wrong > 0 || shared[777] > 0 {
		t.Errorf("%d answers are wrong, %d requests shared executions", wrong, shared[777])
	}
}

// TestLengthsAreProvenBeforeTheyAreJoined: the size of an open dimension is a value. Rows that meet in one length only,
// which no made-up example has, get the same answers as alone.
func TestLengthsAreProvenBeforeTheyAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sequence(func(rows [][]float32) ([][]float32, error) {
			for i, row := range rows {
				if len(row) == 37 {
					row[0] += rows[(i+1)%len(rows)][1]
				}
			}
			return rows, nil
		})
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			time.Sleep(time.Millisecond) // so that requests wait for each other
			return run(b)
		}
		w := newWorld(t, 1)
		w.add("m", 1, f, nil)
		v := w.load("m")
		if !v.Batching.Batched {
			t.Fatal(v.Batching.Reason)
		}
		for _, length := range []int{38, 37} {
			shared := 0
			for range 3 {
				var calls []*catalog.Call
				for i := range 8 {
					x := make([]float32, length)
					x[0], x[1] = float32(i), float32(i)
					calls = append(calls, ask(v, 1, x...))
				}
				for i, err := range asked(t, w, calls)() {
					if err != nil {
						t.Fatal(err)
					}
					want := float32(i)
					if length == 37 {
						want *= 2
					}
					if got := values(calls[i].Results[0])[0]; got != want {
						t.Errorf("length %d: got %v, want %v", length, got, want)
					}
					shared = max(shared, calls[i].Outcome.BatchRequests)
				}
				time.Sleep(time.Second) // for the proof
				synctest.Wait()
			}
			if (shared > 1) != (length == 38) {
				t.Errorf("length %d: up to %d requests shared an execution", length, shared)
			}
		}
		if b := w.version("m", 1).Batching; !strings.Contains(b.Reason,
			`taken out of batching: with what a request brought for "x"`) {
			t.Error(b.Reason)
		}
	})
}

// TestProofsOfValuesTakeTheirShareOnly: whatever a client sends, proofs of values take a tenth of the device time of
// the requests that were answered, and a second at first.
func TestProofsOfValuesTakeTheirShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scalars([]tensor.Spec{spec("mode", tensor.Int64)}, func(*tensor.Batch) bool { return false })
		run, used := f.Answer, time.Duration(0)
		f.Answer = func(b *tensor.Batch) error {
			took := time.Millisecond + time.Duration(b.Inputs[0].Shape[0])*100*time.Microsecond
			time.Sleep(took)
			used += took
			return run(b)
		}
		w := newWorld(t, 1)
		w.add("m", 1, f, nil)
		v := w.load("m")
		used = 0
		requests := time.Duration(0)
		twice := func(mode int64) {
			for range 2 {
				call := askMode(v, 1, mode, 1)
				if err := w.Predict(t.Context(), call); err != nil {
					t.Fatal(err)
				}
				requests += call.Outcome.DeviceTime
			}
		}
		proofs := func() time.Duration {
			time.Sleep(time.Minute) // which ends the proof that is under way
			synctest.Wait()
			return used - requests
		}
		twice(1000)
		one := proofs()
		if one < 10*time.Millisecond {
			t.Fatalf("a proof took %v", one)
		}
		for mode := range int64(1000) {
			twice(2000 + mode)
		}
		most := time.Second + requests/10
		got := proofs()
		if got > most+one || got < most-one {
			t.Errorf("proofs took %v beside %v of requests, want %v, and one takes %v", got, requests, most, one)
		}
		// A value that comes often is proven when enough was earned for it.
		for range 500 {
			twice(5)
		}
		if more := proofs() - got; more < one/2 || more > 2*one {
			t.Errorf("proofs of a value took %v, and one takes %v", more, one)
		}
		// No more is saved up than there was at first.
		for range 20_000 {
			twice(5)
		}
		got = proofs()
		before := requests
		for mode := range int64(1000) {
			twice(4000 + mode)
		}
		if more, most := proofs()-got, time.Second+(requests-before)/10+one; more > most {
			t.Errorf("after much was earned, proofs took %v, want %v at most", more, most)
		}
	})
}
