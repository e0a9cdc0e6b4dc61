package host_test

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// oneRowCalls returns n calls of one row with the value i+1, but NaN for the poisoned ones.
func oneRowCalls(n int, poisoned ...int) []*catalog.Call {
	calls := make([]*catalog.Call, n)
	for i := range calls {
		calls[i] = ask(nil, 1, float32(i+1))
	}
	for _, i := range poisoned {
		calls[i] = ask(nil, 1, float32(math.NaN()))
	}
	return calls
}

// patient gives isolation all the time that it may want, so that a slow machine does not change a test.
func patient(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = config.Duration(time.Minute) }

// outcomes describes each call: "ok", "alone" (it failed on its own) or the error.
func outcomes(calls []*catalog.Call, errs []error) []string {
	var got []string
	for i, err := range errs {
		failed, is := errors.AsType[*catalog.ModelError](err)
		switch in := values(calls[i].Inputs[0])[0]; {
		case err == nil && values(calls[i].Results[0])[0] == 2*in:
			got = append(got, "ok")
		case err == nil:
			got = append(got, fmt.Sprintf("%v for %v", values(calls[i].Results[0]), in))
		case is && failed.Model == "m" && failed.Version == 1:
			got = append(got, "alone")
		default:
			got = append(got, err.Error())
		}
	}
	return got
}

// all returns n times the same outcome.
func all(n int, outcome string) []string { return slices.Repeat([]string{outcome}, n) }

func TestOnePoisonedRequest(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), patient)
	for _, n := range []int{1, 2, 3, 5, 8, 13} {
		for at := range n {
			calls := oneRowCalls(n, at)
			errs, runs := b.together(0, calls)
			want := all(n, "ok")
			want[at] = "alone"
			if diff := cmp.Diff(want, outcomes(calls, errs)); diff != "" {
				t.Errorf("%d of %d is poisoned (-want +got):\n%s", at, n, diff)
			}
			if !errors.Is(errs[at], errNaN) {
				t.Errorf("%d of %d: %v does not wrap the model's error", at, n, errs[at])
			}
			if most := 1 + 2*bits.Len(uint(n-1)); len(runs) > most {
				t.Errorf("%d of %d: runs %v, want at most %d", at, n, runs, most)
			}
			if !b.sched.report.Unusable {
				t.Errorf("%d of %d: the failed batch would teach the cost model", at, n)
			}
			if r := b.sched.report; r.Failure != sharedsched.ModelFailed || r.Reruns != len(runs)-1 {
				t.Errorf("%d of %d: reported as %v with %d reruns; runs %v", at, n, r.Failure, r.Reruns, runs)
			}
		}
	}
}

// TestMorePoisonedRequests: the runs within the batch do not suffice for several, and the requests left over are run by
// themselves.
func TestMorePoisonedRequests(t *testing.T) {
	const n = 8
	b := newBench(t, perRow(1, doubleUnlessNaN), patient)
	for set := range 1 << n {
		var poisoned []int
		want := all(n, "ok")
		for i := range n {
			if set>>i&1 == 1 {
				poisoned = append(poisoned, i)
				want[i] = "alone"
			}
		}
		calls := oneRowCalls(n, poisoned...)
		errs, runs := b.together(0, calls)
		if diff := cmp.Diff(want, outcomes(calls, errs)); diff != "" {
			t.Errorf("%d are poisoned (-want +got):\n%s", poisoned, diff)
		}
		if most := 1 + 2*bits.Len(uint(n-1)) + n; len(runs) > most {
			t.Errorf("%d are poisoned: runs %v, want at most %d", poisoned, runs, most)
		}
		for i, err := range errs {
			if failed, is := errors.AsType[*catalog.ModelError](err); is && len(poisoned) < n/2 && failed.Mates == 0 {
				t.Errorf("%d are poisoned: request %d seems to have failed without others that were answered", poisoned,
					i)
			}
		}
	}
}

func TestEveryRequestPoisoned(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), patient)
	calls := oneRowCalls(4, 0, 1, 2, 3)
	errs, runs := b.together(0, calls)
	// All, both halves, then the first half's; that spends the four further runs. The others run by themselves.
	if diff := cmp.Diff([]int{4, 2, 2, 1, 1, 1, 1}, runs); diff != "" {
		t.Errorf("rows of each run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all(4, "alone"), outcomes(calls, errs)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// scripted is a doubling model whose next runs end as the script says, nil being well.
func scripted(script *[]error) *fake {
	return overRows(1, func(rows [][]float32) error {
		if len(*script) > 0 {
			err := (*script)[0]
			*script = (*script)[1:]
			if err != nil {
				return err
			}
		}
		for _, r := range rows {
			_ = double(r)
		}
		return nil
	})
}

// The errors of an engine that say what they mean.
var (
	errLost       = &engine.Error{Kind: engine.DeviceLost, Err: errors.New("the engine lost its device")}
	errTerminated = &engine.Error{Kind: engine.Terminated, Err: errors.New("the engine was told to end its runs")}
	errMemory     = &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("no memory for that")}
)

func TestFailedRuns(t *testing.T) {
	var (
		hiccup = errors.New("hiccup")
		lost   = fmt.Errorf("run: %w", errLost)
		ended  = errTerminated
		full   = errMemory
		device = `model "m" version 1: the device that holds the model is lost: ` + lost.Error()
	)
	for _, test := range []struct {
		name   string
		rows   []int // of each request
		padded int
		script []error
		want   []string
		runs   []int // of the batch
		alone  []int // of requests left over, ascending
	}{
		{
			name: "a failure that does not come again", rows: []int{1, 1, 1, 1}, script: []error{hiccup},
			want: all(4, "ok"), runs: []int{4, 2, 1, 1},
		},
		{name: "device lost", rows: []int{1, 1, 1}, script: []error{lost}, want: all(3, device), runs: []int{3}},
		{
			name: "device lost while isolating", rows: []int{1, 1, 1, 1}, script: []error{hiccup, nil, lost},
			want: []string{"ok", "ok", device, device}, runs: []int{4, 2, 1},
		},
		{
			name: "terminated", rows: []int{1, 1}, script: []error{ended, ended, ended}, want: all(2, "alone"),
			runs: []int{2}, alone: []int{1, 1},
		},
		{name: "terminated alone", rows: []int{1}, script: []error{ended}, want: all(1, "alone"), runs: []int{1}},
		{
			name: "out of memory, halves fit", rows: []int{1, 1, 1, 1, 1}, script: []error{full}, want: all(5, "ok"),
			runs: []int{5, 3, 2},
		},
		{
			name: "out of memory, one half does not fit", rows: []int{1, 1, 1, 1}, script: []error{full, full},
			want: all(4, "ok"), runs: []int{4, 2, 2}, alone: []int{1, 1},
		},
		{
			name: "out of memory, cut through a request", rows: []int{1, 6, 1}, script: []error{full}, want: all(3, "ok"),
			runs: []int{8, 4, 4},
		},
		{
			name: "out of memory, half of a request", rows: []int{1, 6, 1}, script: []error{full, nil, full},
			want: all(3, "ok"), runs: []int{8, 4, 4}, alone: []int{1, 6},
		},
		{
			name: "out of memory for one row", rows: []int{1}, script: []error{full}, want: all(1, "alone"),
			runs: []int{1},
		},
		{name: "padded", rows: []int{1, 1, 1}, padded: 8, want: all(3, "ok"), runs: []int{8}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var script []error
			b := newBench(t, scripted(&script), patient)
			script = slices.Clone(test.script)
			var calls []*catalog.Call
			for i, n := range test.rows {
				row := make([]float32, n)
				for k := range row {
					row[k] = float32(10*i + k + 1)
				}
				calls = append(calls, ask(nil, n, row...))
			}
			errs, runs := b.together(test.padded, calls)
			if diff := cmp.Diff(test.want, outcomes(calls, errs)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			alone := slices.Sorted(slices.Values(runs[min(len(runs), 1+b.sched.report.Reruns):]))
			if diff := cmp.Diff(slices.Concat(test.runs, test.alone),
				slices.Concat(runs[:len(runs)-len(alone)], alone)); diff != "" {
				t.Errorf("rows of each run (-want +got):\n%s", diff)
			}
			if want := len(test.script) > 0; b.sched.report.Unusable != want {
				t.Errorf("kept out of the cost model: %v, want %v", b.sched.report.Unusable, want)
			}
			if want := len(test.script) > 0 && errors.Is(test.script[0], full) &&
				slices.Contains(test.want, "ok"); b.sched.report.OutOfMemory != want {
				t.Errorf("out of memory: %v, want %v", b.sched.report.OutOfMemory, want)
			}
			want := sharedsched.NotFailed
			switch {
			case slices.Contains(test.script, lost):
				want = sharedsched.LostDevice
			case slices.Contains(test.script, error(full)):
				want = sharedsched.OutOfMemory
			case len(test.script) > 0:
				want = sharedsched.ModelFailed
			}
			if r := b.sched.report; r.Failure != want || r.Reruns != len(test.runs)-1 {
				t.Errorf("reported as %v with %d reruns, want %v with %d", r.Failure, r.Reruns, want, len(test.runs)-1)
			}
			for i, c := range calls {
				if errs[i] != nil {
					continue
				}
				for k, y := range values(c.Results[0]) {
					if want := 2 * float32(10*i+k+1); y != want {
						t.Errorf("request %d row %d: %v, want %v", i, k, y, want)
					}
				}
			}
		})
	}
}

// TestPanic has an engine that panics on NaN: it is an error like others, and the operator gets the stack.
func TestPanic(t *testing.T) {
	b := newBench(t, perRow(1, func(row []float32) error {
		if doubleUnlessNaN(row) != nil {
			panic("kernel bug")
		}
		return nil
	}), patient)
	calls := oneRowCalls(4, 2)
	errs, _ := b.together(0, calls)
	if diff := cmp.Diff([]string{"ok", "ok", "alone", "ok"}, outcomes(calls, errs)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if !strings.Contains(errs[2].Error(), "the run panicked: kernel bug") ||
		strings.Contains(errs[2].Error(), "goroutine") {
		t.Errorf("the caller is told %q", errs[2])
	}
	if len(b.logs.Event("run_panicked")) == 0 {
		t.Error("no log of the panic")
	}
}

// TestIsolationEndsWithItsTime has a batch budget that has passed before the first run ends.
func TestIsolationEndsWithItsTime(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), func(m *modelrepo.Manifest) {
		m.Batching.Mode = modelrepo.BatchOn
		m.Batching.MaxBatchCost = 1
	})
	calls := oneRowCalls(8, 3)
	errs, runs := b.together(0, calls)
	if diff := cmp.Diff(append([]int{8}, slices.Repeat([]int{1}, 8)...), runs); diff != "" {
		t.Errorf("rows of each run (-want +got):\n%s", diff)
	}
	want := all(8, "ok")
	want[3] = "alone"
	if diff := cmp.Diff(want, outcomes(calls, errs)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestHalvesOfOneRequestArePadded: each half is padded to the size of the whole, whose answer it must not be taken for.
func TestHalvesOfOneRequestArePadded(t *testing.T) {
	var script []error
	b := newBench(t, scripted(&script), func(m *modelrepo.Manifest) { m.Batching.AllowedBatchSizes = []int{8} })
	script = []error{errMemory}
	c := ask(nil, 8, 1, 2, 3, 4, 5, 6, 7, 8)
	errs, runs := b.together(0, []*catalog.Call{c})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	if diff := cmp.Diff([]int{8, 8, 8}, runs); diff != "" {
		t.Errorf("rows of each run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{2, 4, 6, 8, 10, 12, 14, 16}, values(c.Results[0])); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// TestDeviceTime: where the engine says how long it used the device, that counts, also over the runs that isolation
// adds; elsewhere only the scheduler knows it.
func TestDeviceTime(t *testing.T) {
	for _, own := range []bool{true, false} {
		f := slowly(perRow(1, doubleUnlessNaN))
		if answer := f.Answer; own {
			f.Answer = func(b *tensor.Batch) error {
				start := time.Now()
				defer func() { b.DeviceTime = time.Since(start) }()
				return answer(b)
			}
		}
		b := newBench(t, f, patient)
		b.together(0, oneRowCalls(2))
		if got := b.sched.report.DeviceTime; got > 0 != own {
			t.Errorf("measured by the engine %v: %v of device time", own, got)
		}
		if b.sched.report.Unusable {
			t.Error("a good batch would not teach the cost model")
		}
		_, runs := b.together(0, oneRowCalls(2, 0))
		// A run spins for 200 µs; clocks may be coarse.
		if got := b.sched.report.DeviceTime; own && got < time.Duration(len(runs)-1)*100*time.Microsecond {
			t.Errorf("%d runs used %v of device time", len(runs), got)
		}
	}
}

// TestPaddingRepeatsTheLastRow: made-up rows are real data, which takes the model nowhere that a request could not.
func TestPaddingRepeatsTheLastRow(t *testing.T) {
	var seen []float32
	b := newBench(t, overRows(1, func(rows [][]float32) error {
		seen = nil
		for _, r := range rows {
			seen = append(seen, r[0])
			_ = double(r)
		}
		return nil
	}), patient)
	b.together(6, []*catalog.Call{ask(nil, 1, 5), ask(nil, 3, 6, 7, 8)})
	if diff := cmp.Diff([]float32{5, 6, 7, 8, 8, 8}, seen); diff != "" {
		t.Errorf("rows of the run (-want +got):\n%s", diff)
	}
}

// TestIsolationPadsItsRuns: where sizes are prescribed, the runs that look for the cause have them too.
func TestIsolationPadsItsRuns(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), func(m *modelrepo.Manifest) {
		patient(m)
		m.Batching.AllowedBatchSizes = []int{3, 6}
	})
	calls := oneRowCalls(5, 0)
	errs, runs := b.together(6, calls)
	if diff := cmp.Diff([]string{"alone", "ok", "ok", "ok", "ok"}, outcomes(calls, errs)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	for _, size := range runs {
		if size != 3 && size != 6 {
			t.Errorf("runs of %v rows, want 3 or 6 only", runs)
		}
	}
}
