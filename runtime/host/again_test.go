package host_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// timed makes each run of a model take some virtual time, and notes how many rows it has and when it begins.
type timed struct {
	*fake
	rows   []int64
	starts []time.Time
}

func timedModel(f *fake, perRun, perRow time.Duration) *timed {
	m := &timed{fake: f}
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		rows := b.Inputs[0].Shape[0]
		m.rows, m.starts = append(m.rows, rows), append(m.starts, time.Now())
		time.Sleep(perRun + time.Duration(rows)*perRow)
		return run(b)
	}
	return m
}

// Forget begins to note from scratch.
func (m *timed) Forget() {
	m.rows, m.starts = nil, nil
	m.fake.Forget()
}

// TestWhatIsRunAgainHasTheSizesOfBatches: those of a failed batch that are run once more, and the parts of a request
// that was split.
func TestWhatIsRunAgainHasTheSizesOfBatches(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), func(m *modelrepo.Manifest) {
		m.Batching.Mode, m.Batching.MaxBatchCost, m.Batching.AllowedBatchSizes = modelrepo.BatchOn, 1, []int{4, 8}
	})
	calls := oneRowCalls(8, 3)
	errs, runs := b.together(0, calls)
	if slices.ContainsFunc(runs, func(rows int) bool { return rows != 4 && rows != 8 }) || len(runs) != 9 {
		t.Errorf("runs of %v rows, want 9 of 4 or 8", runs)
	}
	if got := outcomes(calls, errs); slices.Index(got, "alone") != 3 ||
		strings.Count(strings.Join(got, " "), "ok") != 7 {
		t.Errorf("outcomes %q", got)
	}

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := timedModel(perRow(1, doubleUnlessNaN), 150*time.Millisecond, 0) // longer than isolation may take
		w.add("m", 1, f.fake, func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchSize, m.Batching.MaxBatchCost = 4, 0
		})
		v := w.load("m")
		f.Forget()
		calls := append([]*catalog.Call{ask(v, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}, oneRowCalls(2, 0, 1)...)
		for _, c := range calls {
			c.Version = v
		}
		errs := asked(t, w, calls)()
		if got := outcomes(calls, errs); errs[0] != nil || got[1] != "alone" || got[2] != "alone" {
			t.Errorf("outcomes %q", got)
		}
		if most := slices.Max(f.rows); most > 4 {
			t.Errorf("runs of %v rows, want 4 at most", f.rows)
		}
	})
}

// TestWhatIsRunAgainKeepsItsLimit: nothing is begun for a caller whose answer would be worth nothing any more.
func TestWhatIsRunAgainKeepsItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := timedModel(perRow(1, doubleUnlessNaN), 150*time.Millisecond, 0)
		w.add("m", 1, f.fake, func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchCost, m.MaxLatency = 0, config.Duration(time.Second)
		})
		v := w.load("m")
		time.Sleep(time.Minute)
		f.Forget()
		calls := oneRowCalls(16, 0, 15)
		for _, c := range calls {
			c.Version = v
		}
		began := time.Now()
		errs := asked(t, w, calls)()
		expired := 0
		for _, err := range errs {
			if errors.Is(err, sharedsched.ErrExpired) {
				expired++
			} else if _, is := errors.AsType[*sharedsched.Refusal](err); is {
				expired++
			}
		}
		if last := f.starts[len(f.starts)-1].Sub(began); last >= time.Second || expired == 0 {
			t.Errorf("the last run began %v after the requests came, and %d of them expired; the limit is 1s", last,
				expired)
		}
	})
}

// TestMatesThatAreRunAgainCount: a request that fails by itself, after the others of its batch were answered by
// themselves, is to blame alone.
func TestMatesThatAreRunAgainCount(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), func(m *modelrepo.Manifest) {
		m.Batching.Mode, m.Batching.MaxBatchCost = modelrepo.BatchOn, 1
	})
	most := 0
	for range 100 { // they are run in any order
		errs, _ := b.together(0, oneRowCalls(8, 3))
		failed, is := errors.AsType[*catalog.ModelError](errs[3])
		if !is {
			t.Fatal(errs[3])
		}
		most = max(most, failed.Mates)
	}
	if most == 0 {
		t.Error("none of its mates was counted, though seven were answered")
	}
}

// independent is a model with a scalar mode that lets no rows meet.
func independent() *fake {
	return scalars([]tensor.Spec{spec("mode", tensor.Int64)}, func(*tensor.Batch) bool { return false })
}

// TestValuesAreProvenWhateverTheBounds: the bounds of the manifest on callers, in rows or in time, do not bound the
// proof of their values.
func TestValuesAreProvenWhateverTheBounds(t *testing.T) {
	for name, change := range map[string]func(*modelrepo.Manifest){
		"none":             func(*modelrepo.Manifest) {},
		"max_request_rows": func(m *modelrepo.Manifest) { m.Batching.MaxRequestRows = 1 },
		"max_latency":      func(m *modelrepo.Manifest) { m.MaxLatency = config.Duration(40 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				f := timedModel(independent(), 0, time.Millisecond)
				w.add("m", 1, f.fake, change)
				v := w.load("m")
				for range 4 {
					if err := w.Predict(t.Context(), askMode(v, 1, 55, 1)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				calls := make([]*catalog.Call, 8)
				for i := range calls {
					calls[i] = askMode(v, 1, 55, float32(i))
				}
				for _, err := range asked(t, w, calls)() {
					if err != nil {
						t.Error(err)
					}
				}
				if calls[7].Outcome.BatchRequests < 2 {
					t.Errorf("requests with a value that came four times before share no execution: %+v",
						calls[7].Outcome)
				}
			})
		})
	}
}

// TestProofsOfValuesAreNoLongerThanBatches: of a model of which one row takes so long that few may share an execution;
// and none is begun for a shadow.
func TestProofsOfValuesAreNoLongerThanBatches(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dear := false
			f := timedModel(independent(), 10*time.Microsecond, 0)
			run := f.Answer
			f.Answer = func(b *tensor.Batch) error {
				if dear {
					time.Sleep(time.Duration(b.Inputs[0].Shape[0]) * 40 * time.Millisecond)
				}
				return run(b)
			}
			w := newWorld(t, 1)
			w.add("m", 1, f.fake, func(
				m *modelrepo.Manifest,
			) {
				m.Batching.MaxBatchCost = config.Duration(100 * time.Millisecond)
			})
			v := w.load("m")
			dear = true // as a long input is
			f.Forget()
			const asks = 4
			for range asks {
				c := askMode(v, 1, 55, 1)
				c.Shadow = shadow
				if err := w.Predict(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			if most := slices.Max(f.rows); most > 3 || (most == 1) != shadow || shadow && len(f.rows) != asks {
				t.Errorf("shadow %v: runs of %v rows", shadow, f.rows)
			}
		})
	}
}
