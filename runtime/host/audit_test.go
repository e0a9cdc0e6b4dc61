package host_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// audited is a world in virtual time with one model, whose executions take some time per run and per row.
type audited struct {
	*world
	f       *fake
	v       *catalog.Version
	results map[audit.Result]int // guarded by mu
	onTold  func()               // if not nil, set before anything is reported
	mu      sync.Mutex
}

// taking makes the executions of a model take time.
func taking(f *fake, perRun, perRow time.Duration) *fake {
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		rows := b.Inputs[0].Shape[0]
		time.Sleep(perRun + time.Duration(rows)*perRow)
		return run(b)
	}
	return f
}

// newAudited loads a model of one float per row. perRun and perRow are the device time of an execution.
func newAudited(t *testing.T, f *fake, perRun, perRow time.Duration, change func(*modelrepo.Manifest)) *audited {
	t.Helper()
	a := &audited{f: f, results: map[audit.Result]int{}}
	taking(f, perRun, perRow)
	a.world = newWorldOf(t, 1, func(c *host.Config) {
		c.Audited = func(e audit.Event) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.results[e.Result] += e.Count; a.onTold != nil {
				a.onTold()
			}
		}
	})
	a.add("m", 1, f, func(m *modelrepo.Manifest) {
		m.Batching.Audit = 0.01
		if change != nil {
			change(m)
		}
	})
	a.v = a.load("m")
	if !a.v.Batching.Batched {
		t.Fatal(a.v.Batching.Reason)
	}
	f.Forget()
	return a
}

// wave sends requests of one row at once and returns how many of the answers were not twice the question.
func (a *audited) wave(xs ...float32) (wrong int) {
	a.t.Helper()
	var callers sync.WaitGroup
	var mu sync.Mutex
	for _, x := range xs {
		callers.Go(func() {
			c := ask(a.v, 1, x)
			if err := a.Predict(a.t.Context(), c); err != nil {
				a.t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if values(c.Results[0])[0] != 2*x {
				wrong++
			}
		})
	}
	callers.Wait()
	return wrong
}

func (a *audited) counted(result audit.Result) int { return a.told()[result] }

// told returns the findings of audits so far.
func (a *audited) told() map[audit.Result]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.results)
}

// magic is a value of a row that no example comes upon.
const magic = 777

// meeting doubles each row, but rows next to a magic one get something added.
func meeting() *fake {
	return overRows(1, func(rows [][]float32) error {
		met := slices.ContainsFunc(rows, func(r []float32) bool { return r[0] == magic })
		for _, r := range rows {
			if r[0] *= 2; met && r[0] != 2*magic {
				r[0]++
			}
		}
		return nil
	})
}

// TestHowManyAnswersAreWrongBeforeAnAuditFindsOne compares with the number expected from the share: a request is
// audited with the probability (share · its device time in the batch) / (device time of a row alone), and until one of
// the wrong ones is, their mean number is one over that. A version is looked at ten times as closely at first.
func TestHowManyAnswersAreWrongBeforeAnAuditFindsOne(t *testing.T) {
	const tries = 40
	wrong, asked := 0, 0
	for seed := range uint64(tries) {
		synctest.Test(t, func(t *testing.T) {
			a := newAudited(t, meeting(), time.Millisecond, 100*time.Microsecond, nil)
			w, n := a.untilFound(seed)
			wrong, asked = wrong+w, asked+n
		})
	}
	alone, batch := 1.1, 2.6 // ms; of 16 rows
	expected := alone / (10 * 0.01 * batch / 16)
	got := float64(wrong) / tries
	t.Logf("%.0f wrong answers of %d before one is found, %.0f expected", got, asked/tries, expected)
	if got > 2*expected || got < expected/2 {
		t.Errorf("%.0f wrong answers of %d before one is found, want about %.0f", got, asked/tries, expected)
	}
}

// untilFound asks in waves, of which one in ten has a magic row, until the version is out of batching.
func (a *audited) untilFound(seed uint64) (wrong, asked int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for ; a.version("m", 1).Batching.Batched && asked < 100_000; asked += 16 {
		xs := make([]float32, 16)
		for i := range xs {
			xs[i] = float32(rng.IntN(magic))
		}
		if rng.IntN(10) == 0 {
			xs[rng.IntN(16)] = magic
		}
		wrong += a.wave(xs...)
		time.Sleep(50 * time.Millisecond)
	}
	return wrong, asked
}

// TestAnAuditFindsRowsThatMeet: the version passes its proof, answers wrongly now and then, is found out, and forms no
// batch any more.
func TestAnAuditFindsRowsThatMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, meeting(), time.Millisecond, 100*time.Microsecond, nil)
		wrong, asked := a.untilFound(1)
		b := a.version("m", 1).Batching
		if b.Batched {
			t.Fatalf("%d of %d answers are wrong and nobody noticed: %v", wrong, asked, a.told())
		}
		t.Logf("%d of %d answers were wrong before the audit found one: %v; %s", wrong, asked, a.told(), b.Reason)
		if want := `taken out of batching: an audit of live batches found that output "y" of a row differs by `; !strings.HasPrefix(b.Reason, want) {
			t.Errorf("the reason is %q, want %q and the numbers", b.Reason, want)
		}
		if l := a.version("m", 1).Live(); l.Different != 1 || l.Audited < 1 || a.counted(audit.Different) != 1 {
			t.Errorf("%d rows were compared, %d were different, told of %v", l.Audited, l.Different, a.told())
		}
		if n := len(a.logs.Event(takenOut)); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if held := a.Auditing(); held != 0 {
			t.Errorf("%d bytes are held for further audits", held)
		}
		a.f.Forget()
		for range 20 {
			if wrong := a.wave(1, 2, 3, magic, 5, 6, 7, 8); wrong > 0 {
				t.Fatalf("%d wrong answers after the difference was found", wrong)
			}
		}
		if runs := a.f.Forget(); slices.Max(runs) > 1 {
			t.Errorf("batches were formed after the difference was found: %v", runs)
		}
	})
}

// TestAnAuditKeepsItsShare: of the device time of batches under load, with pauses in which it could take all that it
// likes.
func TestAnAuditKeepsItsShare(t *testing.T) {
	for _, share := range []float64{0.01, 0.1} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAudited(t, perRow(1, double), time.Millisecond, 100*time.Microsecond,
					func(m *modelrepo.Manifest) { m.Batching.Audit = share })
				for range 1000 {
					xs := make([]float32, 32)
					for i := range xs {
						xs[i] = float32(i)
					}
					a.wave(xs...)
					time.Sleep(20 * time.Millisecond)
				}
				synctest.Wait()
				// rows that ran with others, and all rows that ran alone
				batches, rows, asked := time.Duration(0), 0, 0
				for _, n := range a.f.Forget() {
					if n == 1 {
						asked++
						continue
					}
					batches += time.Millisecond + time.Duration(n)*100*time.Microsecond
					rows += n
				}
				audits := rows + asked - 1000*32
				took := time.Duration(audits) * 1100 * time.Microsecond
				got := float64(took-100*time.Millisecond) / float64(batches)
				t.Logf("%d audits took %v beside %v of batches: %.4f, of which 100ms were for the first; %v", audits,
					took, batches, float64(took)/float64(batches), a.told())
				if got > share+0.0005 || got < 0.8*share {
					t.Errorf("%.4f of the device time went into audits beyond the first 100ms, want %v", got, share)
				}
				if a.told()[audit.Equal] != audits || len(a.told()) != 2 {
					t.Errorf("results %v of %d audits", a.told(), audits)
				}
				// The latest wait for the next to be chosen, until there is none.
				if err := a.UnloadVersion(t.Context(), "m", 1); err != nil {
					t.Fatal(err)
				}
				if sum := a.told()[audit.Equal] + a.told()[audit.Budget]; sum != rows {
					t.Errorf("%d requests are told of, want %d", sum, rows)
				}
			})
		})
	}
}

// TestAnAuditWaitsForIdleTime: it runs no row while others wait, is given up after its time, and says so.
func TestAnAuditWaitsForIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, perRow(1, double), time.Millisecond, 100*time.Microsecond,
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 8 })
		stop := a.keepAsking(a.v, 64)
		time.Sleep(30 * time.Second)
		busy, equal := a.counted(audit.Busy), a.counted(audit.Equal)
		stop()
		if busy < 2 || equal > 1 {
			t.Errorf("%d rows were given up and %d audited while others waited: %v", busy, equal, a.told())
		}
		time.Sleep(time.Minute)
		if after := a.counted(audit.Equal); after <= equal {
			t.Errorf("%d rows were audited when there was time again", after-equal)
		}
	})
}

// TestIdleVersionsGiveUpTheirRows for those that are asked, and so do those that are not to be audited any more. All
// requests are reported.
func TestIdleVersionsGiveUpTheirRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, perRow(1, double), time.Millisecond, 0, nil)
		const versions, row = 4, 8 // bytes that are kept of one
		fakes := []*fake{a.f}
		for n := int64(2); n <= versions; n++ {
			fakes = append(fakes, taking(perRow(1, double), time.Millisecond, 0))
			a.add("m", n, fakes[n-1], nil)
		}
		a.edit("m", func(m *modelrepo.Manifest) { m.Versions.Policy.Latest = versions })
		a.load("m")
		for _, f := range fakes {
			f.Forget()
		}
		filled, rest := a.FillAudits(2*row + row/2) // for one that is run and one that waits
		for n := int64(1); n <= versions; n++ {
			a.v = a.version("m", n)
			before, latest := a.counted(audit.Equal), 0
			for n := 0; n < 200 || a.counted(audit.Equal) > latest; n++ { // until a row is left that waits
				latest = a.counted(audit.Equal)
				a.wave(1, 2, 3, 4)
				time.Sleep(time.Second)
			}
			if held := a.Auditing() - filled; held == 0 || a.counted(audit.Size) > 0 ||
				a.counted(audit.Equal)-before < 10 {
				t.Errorf("%d bytes are held after version %d was asked: %v", held, n, a.told())
			}
		}
		a.v = a.version("m", 1)
		before := a.counted(audit.Budget)
		a.wave(1, 2, 3, 4)
		time.Sleep(time.Second)
		if a.counted(audit.Budget) == before {
			t.Error("the choice does not begin anew after its row was given up")
		}
		a.edit("m", func(m *modelrepo.Manifest) { m.Batching.Audit = 0 })
		a.load("m")
		if held := rest(); held != 0 {
			t.Errorf("%d bytes are held for audits that there are none of any more", held)
		}
		for n := int64(1); n <= versions; n++ {
			if err := a.UnloadVersion(t.Context(), "m", n); err != nil {
				t.Fatal(err)
			}
		}
		told, joined := 0, 0
		for _, n := range a.told() {
			told += n
		}
		for _, f := range fakes {
			for _, n := range f.Forget() {
				if n > 1 {
					joined += n
				}
			}
		}
		if told != joined {
			t.Errorf("%d requests of %d are told of: %v", told, joined, a.told())
		}
	})
}

// TestLongStringsCountInFull: the strings of other rows say nothing of a row's memory.
func TestLongStringsCountInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("in", tensor.String, tensor.Unknown)},
			Outputs: []tensor.Spec{spec("out", tensor.String, tensor.Unknown)},
		}}
		f.Answer = func(b *tensor.Batch) error {
			in := b.Inputs[0]
			copy(b.Output(0, in.DType, in.Shape, len(in.Data)), in.Data)
			return nil
		}
		a := newAudited(t, f, time.Millisecond, 0,
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.Audit = 2, 0.5 })
		run, audited := f.Answer, map[int]bool{}
		f.Answer = func(b *tensor.Batch) error {
			if in := b.Inputs[0]; in.Shape[0] == 1 {
				audited[len(in.Data)] = true
				if held := a.Auditing(); held != int64(2*len(in.Data)) {
					t.Errorf("%d bytes are held of a row that took %d in and out", held, 2*len(in.Data))
				}
			}
			return run(b)
		}
		for range 20 {
			in := words(tensor.Shape{4}, "a", strings.Repeat("b", 1000), "c", "d")
			if err := a.Predict(t.Context(),
				&catalog.Call{Version: a.v, Rows: 4, Inputs: []tensor.Tensor{in}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(audited) != 2 {
			t.Errorf("rows of these sizes were audited: %v", audited)
		}
	})
}

// TestADemotionTellsOfAudits when it holds nothing any more that others wait for.
func TestADemotionTellsOfAudits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, perRow(1, double), time.Millisecond, 0, nil)
		tuning := false
		a.onTold = func() { tuning = tuning || a.Tuning("m", 1) }
		for range 2 { // the first is audited, the second waits
			a.wave(1, 2, 3, 4)
			time.Sleep(time.Second)
		}
		before := a.counted(audit.Budget)
		a.Demote("m", 1, "rows meet")
		if told := a.counted(audit.Budget) - before; told == 0 || tuning {
			t.Errorf("told of %d requests, while settings change: %v", told, tuning)
		}
	})
}

// TestWithoutAnAudit nothing is run that nobody asked for.
func TestWithoutAnAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, meeting(), time.Millisecond, 0, func(m *modelrepo.Manifest) { m.Batching.Audit = 0 })
		for range 50 {
			a.wave(1, magic, 3, 4)
			time.Sleep(time.Second)
		}
		if n := len(a.f.Forget()); n > 100 || len(a.told()) > 0 || a.v.Batching.AuditShare > 0 ||
			a.v.Live().Audited > 0 {
			t.Errorf("%d runs for 50 waves: %v", n, a.told())
		}
	})
}

// TestAModelThatIsRandom is not said to mix rows.
func TestAModelThatIsRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drawn := float32(0)
		f := perRow(1, func(row []float32) error {
			if row[0] *= 2; row[0] >= 1200 && row[0] <= 1800 && row[0] == float32(int(row[0])) { // which no example is
				drawn++
				row[0] += drawn
			}
			return nil
		})
		a := newAudited(t, f, time.Millisecond, 0, nil)
		for range 20 {
			a.wave(600, 700, 800, 900)
			time.Sleep(time.Second)
		}
		b := a.version("m", 1).Batching
		if !b.Batched || !strings.HasSuffix(b.Reason,
			`; output "y" is not audited, because it is something else each time a row is run alone`) {
			t.Errorf("published %+v", b)
		}
		if a.counted(audit.Nondeterministic) != 1 || a.counted(audit.Different) != 0 {
			t.Errorf("results %v", a.told())
		}
	})
}

// TestAnOperatorsWordStands: with mode on a difference is counted and reported, and the version goes on in batches.
func TestAnOperatorsWordStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, meeting(), time.Millisecond, 0,
			func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn })
		for range 200 {
			a.wave(1, magic, 3, 4)
			time.Sleep(time.Second)
		}
		b := a.version("m", 1).Batching
		if n := a.version("m", 1).Live().Different; !b.Batched || n < 2 || !strings.Contains(b.Reason, "differs by") {
			t.Errorf("%d differences, published %+v", n, b)
		}
		if n := len(a.logs.Event("batches_change_answers")); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// TestAnAuditThatCrashes: a row that ends the engine's process when it is run again, at once or once a difference was
// found, does so once there and once in quarantine. Then the audits end.
func TestAnAuditThatCrashes(t *testing.T) {
	for well, c := range []struct { // by the runs before it
		want audit.Result
		says string
	}{
		{audit.Failed, "; batches are not audited any more, because a row of one crashed the model when"},
		{audit.Different, "taken out of batching: an audit of live batches found"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var audits atomic.Bool
			var again atomic.Int32 // runs
			f := overRows(1, func(rows [][]float32) error {
				if audits.Load() && int(again.Add(1)) > well {
					return &engine.Error{Kind: engine.Crashed, Err: errors.New("SIGFPE")}
				}
				for _, r := range rows {
					if r[0] *= 2; len(rows) > 1 && r[0] >= magic { // which no example is
						r[0]++
					}
				}
				return nil
			})
			quarantine := perRow(1, double)
			f.Opened.Quarantine = quarantine
			quarantine.Answer = f.Answer
			a := newAudited(t, f, time.Millisecond, 0, nil)
			for range 20 {
				audits.Store(false)
				a.wave(600, 700, 800, 900)
				audits.Store(true)
				time.Sleep(10 * time.Second)
			}
			v := a.version("m", 1)
			crashes := int(again.Load()) - well
			if crashes != 2 || a.counted(c.want) != 1 || !strings.Contains(v.Batching.Reason, c.says) {
				t.Errorf("%d crashes, %v: %+v", crashes, a.told(), v.Batching)
			}
			if held := a.Auditing(); held != 0 {
				t.Errorf("%d bytes are held for further audits", held)
			}
		})
	}
}

// TestRoundingIsNoDifference: a kernel of another size may round otherwise on live rows, more than it did on made-up
// ones. An effect of the mates is a difference, however small.
func TestRoundingIsNoDifference(t *testing.T) {
	for _, test := range []struct {
		name string
		more func(rows [][]float32) float32 // is added to large rows of a batch
		want audit.Result
	}{
		{"rounding", func(rows [][]float32) float32 { return 0.05 * float32(len(rows)) / 2 }, audit.Rounding},
		{"mates", func(rows [][]float32) float32 {
			return 1e-4 * (slices.MaxFunc(rows, slices.Compare)[0] - slices.MinFunc(rows, slices.Compare)[0])
		}, audit.Different},
		{
			"rounding of a request that is split", func(rows [][]float32) float32 { return 0.05 * float32(len(rows)) / 2 },
			audit.Rounding,
		},
		{"too much for rounding", func(rows [][]float32) float32 { return float32(len(rows)) }, audit.Different},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := overRows(1, func(rows [][]float32) error {
					more := float32(0)
					// which no example is
					if x := rows[0][0]; len(rows) > 1 && x >= 3000 && x <= 5000 && x == float32(int(x)) {
						more = test.more(rows)
					}
					for _, r := range rows {
						r[0] = 2*r[0] + more
					}
					return nil
				})
				a := newAudited(t, f, time.Millisecond, 0,
					func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.Audit = 6, 0.5 })
				for range 20 {
					if strings.HasSuffix(test.name, "split") {
						if err := a.Predict(t.Context(),
							ask(a.v, 8, 3000, 5000, 3001, 4999, 3002, 4998, 3003, 4997)); err != nil {
							t.Fatal(err)
						}
					} else {
						a.wave(3000, 5000, 3001, 4999, 3002, 4998)
					}
					time.Sleep(time.Second)
				}
				if a.counted(test.want) == 0 ||
					a.version("m", 1).Batching.Batched != (test.want == audit.Rounding) {
					t.Errorf("results %v, batching %+v", a.told(), a.version("m", 1).Batching)
				}
			})
		})
	}
}

// TestAuditsChooseEvenly: whatever place in its batch a request has, and whichever row of it.
func TestAuditsChooseEvenly(t *testing.T) {
	for _, share := range []float64{0.1, 0.5} { // shares that earn less than a row for each batch, and more
		t.Run(fmt.Sprint(share), func(t *testing.T) { choosesEvenly(t, share) })
	}
}

func choosesEvenly(t *testing.T, share float64) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		chosen := map[float32]int{}
		f := perRow(1, double)
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			if x := values(b.Inputs[0]); len(x) == 1 && x[0] >= 0 {
				mu.Lock()
				chosen[x[0]]++
				mu.Unlock()
			}
			return run(b)
		}
		a := newAudited(t, f, 0, 10*time.Millisecond, func(m *modelrepo.Manifest) {
			m.Batching.Audit = share
			m.Batching.BatchTimeout = 1e6
		})
		mu.Lock()
		clear(chosen)
		mu.Unlock()
		for range 1000 {
			var callers sync.WaitGroup
			for first := float32(0); first < 8; first += 2 {
				callers.Go(func() {
					if err := a.Predict(t.Context(), ask(a.v, 2, first, first+1)); err != nil {
						t.Error(err)
					}
				})
			}
			callers.Wait()
			time.Sleep(time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		total := 0
		for _, n := range chosen {
			total += n
		}
		for x := float32(0); x < 8; x++ {
			if share := float64(chosen[x]) / float64(total); share < 0.08 || share > 0.18 {
				t.Errorf("row %v was chosen %d of %d times, want an eighth", x, chosen[x], total)
			}
		}
	})
}

// TestASplitRequestIsAudited, and one that is padded to its bucket.
func TestWhatIsAudited(t *testing.T) {
	for _, test := range []struct {
		name   string
		f      *fake
		change func(*modelrepo.Manifest)
		call   func(v *catalog.Version) *catalog.Call
		want   map[audit.Result]int
	}{
		{
			"split", meetingOfRows(), func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 2 },
			func(v *catalog.Version) *catalog.Call { return ask(v, 3, 1, magic, magic+1) },
			map[audit.Result]int{audit.Different: 1},
		},
		{
			"padded rows", perRow(1, double),
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.AllowedBatchSizes = 4, []int{4} },
			func(v *catalog.Version) *catalog.Call { return ask(v, 1, 1) },
			map[audit.Result]int{audit.Equal: 1},
		},
		{
			"padded length", eachRow(doubled), buckets(8),
			func(v *catalog.Version) *catalog.Call { return ask(v, 1, 1, 2, 3) },
			map[audit.Result]int{audit.Equal: 1},
		},
		{
			"padded length that tells", eachRow(func(row []float32) []float32 {
				if doubled(row); row[0] == 2*magic {
					row[0] += float32(len(row))
				}
				return row
			}), buckets(8), func(v *catalog.Version) *catalog.Call { return ask(v, 1, magic, 2, 3) },
			map[audit.Result]int{audit.Different: 1},
		},
		{
			"padded length that rounds otherwise", eachRow(func(row []float32) []float32 {
				if n := len(row); row[0] == magic && n == 8 {
					row[0] += 0.05
				}
				return doubled(row)
			}), buckets(8), func(v *catalog.Version) *catalog.Call { return ask(v, 1, magic, 2, 3) },
			map[audit.Result]int{audit.Rounding: 1},
		},
		{
			"alone", perRow(1, double), nil, func(v *catalog.Version) *catalog.Call { return ask(v, 3, 1, 2, 3) },
			map[audit.Result]int{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAudited(t, test.f, time.Millisecond, 0, test.change)
				if err := a.Predict(t.Context(), test.call(a.v)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if diff := cmp.Diff(test.want, a.told()); diff != "" {
					t.Errorf("results (-want +got):\n%s\n%s", diff, a.version("m", 1).Batching.Reason)
				}
			})
		})
	}
}

// meetingOfRows doubles, but all rows of an execution with a magic one get something added.
func meetingOfRows() *fake {
	return overRows(1, func(rows [][]float32) error {
		met := len(rows) > 1 && slices.ContainsFunc(rows, func(r []float32) bool { return r[0] == magic || r[0] == magic+1 })
		for _, r := range rows {
			if r[0] *= 2; met {
				r[0] += 10
			}
		}
		return nil
	})
}
