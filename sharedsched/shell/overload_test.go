package shell_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/schedtest"
)

// overload is more requests with deadlines than a device can answer.
type overload struct {
	takes time.Duration // a batch
	rows  int           // of a batch
	limit time.Duration
	load  float64 // of what the device can do
}

func (o *overload) String() string { return fmt.Sprintf("%+v", *o) }

// TestWhoIsRefusedInOverloadKnowsAtOnce: where a model has asked for more than its share for some seconds, and another
// model is asked, too, nearly all that get no answer know within a tenth of their time, and the device answers nearly
// as many in time as it can.
func TestWhoIsRefusedInOverloadKnowsAtOnce(t *testing.T) {
	for seed := range map[bool]uint64{false: 12, true: 1}[race.Enabled] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 2))
			o := overload{
				takes: time.Duration(8+rng.IntN(23)) * time.Millisecond, rows: 4 + rng.IntN(60), load: 1.3 + 3*rng.Float64(),
			}
			o.limit = time.Duration((3 + 5*rng.Float64()) * float64(o.takes))
			if inTime, soon := o.run(t, rng); inTime < 0.88 || soon < 0.98 {
				t.Errorf("%v: %.3f of what can be were answered in time, want 0.88; %.3f of the others knew soon, want 0.98",
					&o, inTime, soon)
			}
		})
	}
}

// run returns the answers in time as a part of what the device can do, and the part of the other requests that were
// refused within a tenth of their limits. Both are of the requests that came after the first three seconds.
func (o *overload) run(t *testing.T, rng *rand.Rand) (inTime, soon float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Predictions that are never wrong would need no rule.
		noise := rand.New(rand.NewPCG(rng.Uint64(), 3))
		var other sharedsched.VersionID
		u := schedtest.Executor(func(b *sharedsched.Batch) time.Duration {
			if b.Version == other {
				return time.Microsecond
			}
			return time.Duration((0.5 + noise.Float64()) * float64(o.takes))
		})
		s, v := oneModel(t, u, sharedsched.Settings{Batched: true, MaxBatchSize: o.rows, MaxQueue: 10_000})
		defer s.Close()
		for _, rows := range []int{1, 1, 1, o.rows, o.rows, o.rows} {
			if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: rows, Alone: true}); err != nil {
				t.Fatal(err)
			}
		}
		f, err := s.AddFlow("b", "cpu", 1)
		if err != nil {
			t.Fatal(err)
		}
		patient := sharedsched.Settings{MaxBatchSize: 1, TargetLatency: time.Second} // batches stay whole for its sake
		if other, err = s.AddVersion("b/1", f, patient); err != nil {
			t.Fatal(err)
		}
		const sustained, span = 3 * time.Second, 7 * time.Second
		begun := time.Now()
		var mu sync.Mutex
		var answered int
		var others []time.Duration
		var wg sync.WaitGroup
		wg.Go(func() {
			for ; time.Since(begun) < span; time.Sleep(200 * time.Millisecond) {
				if _, err := s.Do(t.Context(), other, &sharedsched.Task{Rows: 1}); err != nil {
					t.Error(err)
				}
			}
		})
		for time.Since(begun) < span {
			wg.Go(func() {
				asked := time.Now()
				_, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Limit: asked.Add(o.limit)})
				took := time.Since(asked)
				mu.Lock()
				defer mu.Unlock()
				if asked.Sub(begun) < sustained {
					return
				}
				if err == nil && took <= o.limit {
					answered++
				} else {
					others = append(others, took)
				}
			})
			gap := rng.ExpFloat64() * float64(o.takes) / float64(o.rows) / o.load
			time.Sleep(time.Duration(gap))
		}
		wg.Wait()
		inTime = float64(answered) / (float64(o.rows) * float64(span-sustained) / float64(o.takes))
		late := slices.DeleteFunc(slices.Clone(others), func(d time.Duration) bool { return d <= o.limit/10 })
		soon = 1 - float64(len(late))/float64(len(others))
	})
	return inTime, soon
}
