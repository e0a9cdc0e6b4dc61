package host_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// rows asks for rows at once, each in a request of its own, and waits until an audit has taken its time.
func (a *audited) rows(rows ...[]float32) {
	a.t.Helper()
	var callers sync.WaitGroup
	for _, row := range rows {
		callers.Go(func() {
			if err := a.Predict(a.t.Context(), ask(a.v, 1, row...)); err != nil {
				a.t.Error(err)
			}
		})
	}
	callers.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

// moved is a model that gives back its rows. Beside one that begins with met the first number of the others is a
// hundredth more.
func moved(width int64, met float32) *fake { return overRows(width, moving(met)) }

func moving(met float32) func(rows [][]float32) error {
	return func(rows [][]float32) error {
		if slices.ContainsFunc(rows, func(r []float32) bool { return r[0] == met }) {
			for _, r := range rows {
				if r[0] != met {
					r[0] *= 1.01
				}
			}
		}
		return nil
	}
}

// TestASmallDifferenceIsFound: no number hides behind a larger one, in the first rows that are looked at, in large rows
// and in rows that change in length, nor behind the results of made-up rows.
func TestASmallDifferenceIsFound(t *testing.T) {
	large := 1<<16 + 1
	if race.Enabled {
		large = 1<<12 + 1 // more numbers take longer, in the same goroutines
	}
	many := func(first float32, n int) []float32 {
		row := slices.Repeat([]float32{2}, n)
		row[0], row[1] = first, 1e5
		return row
	}
	for _, test := range []struct {
		name string
		f    *fake
		rows [][]float32
	}{
		{"beside a huge one", moved(2, magic), [][]float32{{1, 1e9}, {2, 1e9}, {magic, 1e9}, {3, 1e9}}},
		{
			"among many", moved(int64(large), magic),
			[][]float32{many(1, large), many(2, large), many(magic, large), many(3, large)},
		},
		{"in rows that change in length", sequence(func(rows [][]float32) ([][]float32, error) {
			return rows, moving(magic)(rows)
		}), [][]float32{
			many(1, 5), many(2, 5), many(magic, 5), many(3, 5), many(1, 6), many(2, 6), many(magic, 6),
			many(3, 6),
		}},
		{"far below made-up ones", moved(1, magic*1e-9), [][]float32{{1e-9}, {2e-9}, {magic * 1e-9}, {3e-9}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAudited(t, test.f, time.Millisecond, 0,
					func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.Audit = 4, 0.5 })
				for n := range 24 {
					rows := test.rows
					if n < 4 { // so that no proof of a length comes upon it
						rows = slices.DeleteFunc(slices.Clone(rows),
							func(r []float32) bool { return r[0] >= magic || r[0] == magic*1e-9 })
					}
					a.rows(rows...)
				}
				if a.counted(audit.Different) != 1 || a.version("m", 1).Batching.Batched {
					t.Errorf("results %v: %s", a.told(), a.version("m", 1).Batching.Reason)
				}
			})
		})
	}
}

// network is a small one, whose sums are made in another order in larger batches. Its outputs are of all magnitudes,
// and now and then near zero.
func network(outputs int) *fake {
	rng := rand.New(rand.NewPCG(5, 5))
	matrix := func(rows, columns int) [][]float32 {
		m := make([][]float32, rows)
		for i := range m {
			m[i] = make([]float32, columns)
			for k := range m[i] {
				m[i][k] = float32(rng.NormFloat64() / math.Sqrt(float64(columns)))
			}
		}
		return m
	}
	first, second := matrix(64, 8), matrix(outputs, 64)
	times := func(m [][]float32, x []float32, sums int) []float32 {
		y := make([]float32, len(m))
		for i, row := range m {
			part := make([]float32, sums)
			for k, w := range row {
				part[k%sums] += w * x[k]
			}
			for _, p := range part {
				y[i] += p
			}
		}
		return y
	}
	f := overRows(8, nil)
	f.Declared.Outputs[0].Shape = tensor.Shape{tensor.Unknown, int64(outputs)}
	f.Answer = func(b *tensor.Batch) error {
		n := b.Inputs[0].Shape[0]
		x := values(b.Inputs[0])
		var all []float32
		for i := range n {
			hidden := times(first, x[8*i:][:8], min(2, int(n)))
			for k := range hidden {
				hidden[k] = max(0, hidden[k])
			}
			all = append(all, times(second, hidden, min(4, int(n)))...)
		}
		y := floats(tensor.Shape{n, int64(outputs)}, all...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	return f
}

// randomRows are six for a network.
func randomRows(rng *rand.Rand) [][]float32 {
	rows := make([][]float32, 6)
	for i := range rows {
		for range 8 {
			rows[i] = append(rows[i], float32(rng.NormFloat64()*math.Exp(rng.NormFloat64())))
		}
	}
	return rows
}

// TestKernelsThatAddInAnotherOrder are no difference, in however many rows, and of whatever size.
func TestKernelsThatAddInAnotherOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, outputs := range []int{1, 12, 40} {
		synctest.Test(t, func(t *testing.T) {
			a := newAudited(t, network(outputs), time.Millisecond, 0,
				func(m *modelrepo.Manifest) { m.Batching.Audit = 0.5 })
			rng := rand.New(rand.NewPCG(7, 7))
			for range 4000 / (1 + outputs/8) {
				a.rows(randomRows(rng)...)
			}
			if b := a.version("m", 1).Batching; !b.Batched || len(a.told()) > 3 || a.counted(audit.Equal) < 100 {
				t.Errorf("%d outputs: results %v: %s", outputs, a.told(), b.Reason)
			}
			if n := a.counted(audit.Rounding); outputs > 1 && n > 2 {
				t.Errorf("%d outputs: %d rows were run in a batch of copies, because a number among others is near "+
					"zero", outputs, n)
			}
		})
	}
}

// TestATolerancePassesForRoundingWithinBounds: an effect of how many rows there are is no rounding because a manifest
// tolerates much.
func TestATolerancePassesForRoundingWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := overRows(1, func(rows [][]float32) error {
			for _, r := range rows {
				if len(rows) > 1 && r[0] >= 1000 && r[0] <= 3000 && r[0] == float32(int(r[0])) { // which no example is
					r[0] *= 2
				}
			}
			return nil
		})
		a := newAudited(t, f, time.Millisecond, 0, func(m *modelrepo.Manifest) { m.Batching.Tolerance = 0.2 })
		for range 4 {
			a.rows([]float32{1000}, []float32{1001}, []float32{1002}, []float32{1003})
		}
		if a.counted(audit.Different) != 1 || a.version("m", 1).Batching.Batched {
			t.Errorf("results %v: %s", a.told(), a.version("m", 1).Batching.Reason)
		}
	})
}

// TestWhatWasFoundIsNotForgotten: a row that was found to differ fails when it is run again, for once or from then on.
func TestWhatWasFoundIsNotForgotten(t *testing.T) {
	for _, fails := range []int{1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			f := meeting()
			a := newAudited(t, f, time.Millisecond, 0, nil)
			run, alone := f.Answer, map[float32]int{}
			var live atomic.Bool // a row of a request may come alone by chance
			f.Answer = func(b *tensor.Batch) error {
				if x := values(b.Inputs[0]); len(x) == 1 && x[0] > 1 && !live.Load() {
					if alone[x[0]]++; alone[x[0]] > 1 && alone[x[0]] <= 1+fails {
						return errors.New("not now")
					}
				}
				return run(b)
			}
			for x := float32(1000); x < 5000 && a.version("m", 1).Batching.Batched; x += 10 {
				live.Store(true)
				go a.rows([]float32{1}) // which the others wait for
				synctest.Wait()
				a.rows([]float32{x}, []float32{x + 1}, []float32{magic}, []float32{x + 2}, []float32{x + 3})
				live.Store(false)
				time.Sleep(time.Minute)
			}
			if a.counted(audit.Different) != 1 || a.counted(audit.Failed) > 0 ||
				a.version("m", 1).Batching.Batched {
				t.Errorf("%d failures: results %v after %v runs alone", fails, a.told(), alone)
			}
		})
	}
}

// refusing is a scheduler that takes no foreground audits for a while.
type refusing struct {
	*shell.Scheduler

	least int     // tasks of at least so many rows are refused
	errs  []error // one for each that is
}

func (s *refusing) Do(ctx context.Context, v sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	if t.Alone && t.Priority == sharedsched.Critical && t.Rows >= s.least && len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return sharedsched.Outcome{}, err
	}
	return s.Scheduler.Do(ctx, v, t)
}

// TestABusyDeviceSaysNothing for a row of which something was found, nor against it: it is run when there is time.
func TestABusyDeviceSaysNothing(t *testing.T) {
	full := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, RetryAfter: time.Millisecond}
	dropped := &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput}
	fails := &catalog.ModelError{Err: errors.New("not now")}
	for _, test := range []struct {
		name  string
		f     *fake
		least int
		want  audit.Result
	}{{"meeting", meeting(), 1, audit.Different}, {"rounding", network(1), 2, audit.Rounding}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAudited(t, test.f, time.Millisecond, 0, func(m *modelrepo.Manifest) { m.Batching.Audit = 0.5 })
				s := &refusing{
					a.sched, test.least,
					[]error{full, sharedsched.ErrExpired, full, fails, full, dropped, fails},
				}
				a.Attach(s)
				rng := rand.New(rand.NewPCG(9, 9))
				for n := 0; n < 10_000 && a.counted(test.want) == 0; n++ { // one round in 400 shows rounding
					rows := [][]float32{{magic}}
					for range 3 {
						rows = append(rows, []float32{float32(rng.NormFloat64())})
					}
					if test.f.Declared.Inputs[0].Shape[1] == 8 {
						rows = randomRows(rng)
					}
					a.rows(rows...)
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				if a.counted(test.want) != 1 || a.counted(audit.Failed) > 0 || len(s.errs) > 0 {
					t.Errorf("results %v, %d refusals were not seen", a.told(), len(s.errs))
				}
			})
		})
	}
}

// TestOneOutputThatIsRandom is not audited. The others are.
func TestOneOutputThatIsRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := meeting()
		f.Declared.Outputs = append(f.Declared.Outputs, spec("noise", tensor.Float32, tensor.Unknown, 1))
		run, drawn := f.Answer, float32(0)
		f.Answer = func(b *tensor.Batch) error {
			x := values(b.Inputs[0])
			for i := range x {
				if x[i] > 1000 && x[i] < 1005 { // which no example is
					drawn++
					x[i] = drawn
				}
			}
			noise := floats(b.Inputs[0].Shape, x...)
			copy(b.Output(1, noise.DType, noise.Shape, len(noise.Data)), noise.Data)
			return run(b)
		}
		a := newAudited(t, f, time.Millisecond, 0, func(m *modelrepo.Manifest) { m.Batching.Audit = 0.5 })
		for range 8 {
			a.rows([]float32{1001}, []float32{1002}, []float32{1003}, []float32{1004})
		}
		if b := a.version("m", 1).Batching; !b.Batched || a.counted(audit.Nondeterministic) != 1 ||
			a.counted(audit.Equal) < 2 ||
			!strings.HasSuffix(b.Reason,
				`; output "noise" is not audited, because it is something else each time a row is run alone`) {
			t.Errorf("results %v: %s", a.told(), b.Reason)
		}
		for range 8 {
			a.rows([]float32{1001}, []float32{magic}, []float32{1003}, []float32{1004})
		}
		if b := a.version("m", 1).Batching; b.Batched ||
			!strings.Contains(b.Reason, `that output "y" of a row differs by`) {
			t.Errorf("results %v: %s", a.told(), b.Reason)
		}
	})
}

// TestAuditsKeepTheirMemory: the copies of a row are within the memory that audits may take. Where there is no room for
// as many as its batch had rows, fewer are run in an execution of that size.
func TestAuditsKeepTheirMemory(t *testing.T) {
	const row, size = 8, 6 // bytes that are kept of one, and how many there are in a batch
	for _, test := range []struct {
		name string
		free int64
		held int64 // at least, while the copies run; a row may be kept besides
	}{
		{"room for all", 1 << 20, row + 2*size*row},
		{"room for half", 8 * row, row + size*row},
		{"room for none", row, row},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := overRows(1, func(rows [][]float32) error {
					for _, r := range rows {
						if r[0] >= 1000 && r[0] <= 1010 && len(rows) == size { // which no example is
							r[0] += 0.05
						}
					}
					return nil
				})
				a := newAudited(t, f, time.Millisecond, 0,
					func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = size })
				filled, rest := a.FillAudits(test.free)
				run, held := f.Answer, int64(-1)
				f.Answer = func(b *tensor.Batch) error {
					if x := values(b.Inputs[0]); len(x) == size && slices.Min(x) == slices.Max(x) {
						held = a.Auditing() - filled
					}
					return run(b)
				}
				for n := 0; n < 50 && held < 0; n++ {
					a.rows([]float32{1}, []float32{1001}, []float32{1002}, []float32{1003}, []float32{1004},
						[]float32{1005}, []float32{1006})
				}
				synctest.Wait()
				if held < test.held || held > test.held+row || a.counted(audit.Rounding) == 0 ||
					a.counted(audit.Different) > 0 {
					t.Errorf("%d bytes were held while copies ran, want %d: %v", held, test.held, a.told())
				}
				if left := rest(); left > row { // of one that was chosen since
					t.Errorf("%d bytes are held in the end", left)
				}
			})
		})
	}
}

// TestAnOlderProofSaysNothing of a version that was proven again since, which is audited as before.
func TestAnOlderProofSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, perRow(1, double), time.Millisecond, 0,
			func(m *modelrepo.Manifest) { m.Batching.Audit = 0.5 })
		for size := 100; size < 102; size++ { // the second time it is out of batching before
			old := a.Demoter("m", 1)
			a.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = size })
			a.load("m")
			old("rows met before")
			synctest.Wait()
			if a.v = a.version("m", 1); !a.v.Batching.Batched || a.v.Batching.MaxBatchSize != size {
				t.Errorf("published %+v", a.v.Batching)
			}
			before := a.counted(audit.Equal)
			for range 5 {
				a.wave(1, 2, 3, 4)
				time.Sleep(time.Second)
			}
			if a.counted(audit.Equal) == before {
				t.Errorf("it is not audited any more: %v", a.told())
			}
			a.Demoter("m", 1)("rows meet")
			synctest.Wait()
			if b := a.version("m", 1).Batching; b.Batched {
				t.Errorf("published %+v", b)
			}
		}
	})
}

// meanwhile is a scheduler that does something when the n-th execution of an audit has ended, before that is reported.
type meanwhile struct {
	*shell.Scheduler

	n  int
	do func()
}

func (s *meanwhile) Do(ctx context.Context, v sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	o, err := s.Scheduler.Do(ctx, v, t)
	if t.Alone {
		if s.n--; s.n == 0 {
			s.do()
		}
	}
	return o, err
}

// TestAnAuditOfAnOlderProofSaysNothing, whatever it has found when the version is proven again. Rows that were to be
// audited next are given up.
func TestAnAuditOfAnOlderProofSaysNothing(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint("run ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := overRows(1, func(rows [][]float32) error {
					for _, r := range rows {
						if r[0] >= 1000 && r[0] <= 1010 && len(rows) > 1 { // which no example is
							r[0] += 1000
						}
					}
					return nil
				})
				a := newAudited(t, f, time.Millisecond, 0,
					func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn })
				held := int64(-1)
				a.Attach(&meanwhile{a.sched, n, func() {
					a.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize *= 2 })
					a.load("m")
					held = a.Auditing()
				}})
				a.rows([]float32{1001}, []float32{1002}, []float32{1003}, []float32{1004}, []float32{1005})
				if a.counted(audit.Busy)+a.counted(audit.Failed) != 1 || a.counted(audit.Different) > 0 {
					t.Errorf("results %v", a.told())
				}
				if b := a.version("m", 1).Batching; strings.Contains(b.Reason, "differs") {
					t.Errorf("published %+v", b)
				}
				if held != 8 { // of the row that is being audited
					t.Errorf("%d bytes are held", held)
				}
			})
		})
	}
}
