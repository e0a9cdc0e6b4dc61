package host_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// edit changes the manifest of a model.
func (w *world) edit(name string, change func(*modelrepo.Manifest)) {
	w.change(name, func(m *modelrepo.Model) { change(&m.Manifest) })
}

// sealed makes every further opening of version 1 of m fail.
func (w *world) sealed() {
	w.t.Helper()
	w.put("m", 1, errors.New("opened again"), "first")
}

const provenAnew = "version_reproven"

// slowLog takes a second for each record of some events.
type slowLog struct {
	*weftest.Log

	events []string
}

func (l slowLog) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(l.events, weftest.Attr(r, "event").String()) {
		time.Sleep(time.Second)
	}
	return l.Log.Handle(ctx, r)
}

// TestAChangeIsLoggedFirst: anybody who waits until a changed manifest is followed finds in the log how that went.
func TestAChangeIsLoggedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, events := &weftest.Log{}, []string{provenAnew, "version_reconfigured"}
		w := newWorldOf(t, 1, func(c *host.Config) { c.Logger = slog.New(slowLog{logs, events}) })
		w.add("n", 1, times(1), fourRows)
		w.reconcile()
		for i, most := range []int{32, 16} {
			w.edit("n", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = most })
			w.reconcile()
			if n := len(logs.Event(events[i])); n != 1 {
				t.Errorf("%s was logged %d times", events[i], n)
			}
		}
	})
}

// TestNewSizesAreProvenWhileItServes: callers are answered throughout, the log says what happened, and the proof's
// verdict holds.
func TestNewSizesAreProvenWhileItServes(t *testing.T) {
	for _, test := range []struct {
		name    string
		f       *fake
		from    func(*modelrepo.Manifest)
		to      func(*modelrepo.Manifest)
		batched bool
		most    int
		reason  string
	}{
		{
			"larger", times(1), fourRows,
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.MaxRequestRows = 32, 8 }, true, 32,
			"proven harmless",
		},
		{
			"larger than rows are independent", crowding(), fourRows,
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 32 }, false, 1, "not proven harmless",
		},
		{
			"dearer", times(1), func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = 1e6 },
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = 2e6 }, true, 64, "proven harmless",
		},
		{"other sizes", times(1), fourRows, func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchSize, m.Batching.AllowedBatchSizes = 12, []int{3, 12}
		}, true, 12, "in batches of 3, 12"},
		{
			"off", times(1), fourRows, func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff }, false, 1,
			"batching.mode is off",
		},
		{
			"on", crowding(), func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 32 },
			func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn }, true, 32, "without proof",
		},
		{
			"auto", crowding(), func(m *modelrepo.Manifest) { fourRows(m); m.Batching.Mode = modelrepo.BatchOff },
			func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchAuto }, true, 4, "proven harmless",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, test.f, test.from)
			w.reconcile()
			w.sealed()
			_, end := w.besiege(3, 3)
			w.edit("m", test.to)
			w.reconcile()
			end()
			v := w.version("m", 1)
			if b := v.Batching; b.Batched != test.batched || b.MaxBatchSize != test.most ||
				!strings.Contains(b.Reason, test.reason) || v.Cause != "" {
				t.Errorf("published %+v, cause %q", b, v.Cause)
			}
			for _, s := range w.sched.State().Versions { // the version that was there before may be on its way out
				if int32(s.ID) == v.Scheduler &&
					(s.Settings.Batched != test.batched || s.Settings.MaxBatchSize != test.most) {
					t.Errorf("scheduled with %+v", s.Settings)
				}
			}
			if len(w.logs.Event(provenAnew)) != 1 || len(w.logs.Event("version_replaced")) != 0 || test.f.Closed() != 0 {
				t.Errorf("closed %d times, and the log does not say that it was proven anew", test.f.Closed())
			}
			test.f.Forget()
			w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxQueue = 77 })
			w.reconcile()
			if runs := test.f.Forget(); len(runs) > 0 || w.version("m", 1).Batching.MaxQueue != 77 {
				t.Errorf("what it was proven for is proven again, in %d runs", len(runs))
			}
			if err := w.Close(t.Context()); err != nil || test.f.Closed() != 1 || w.Counts().MemoryInUse != 0 ||
				len(w.sched.State().Versions) != 0 {
				t.Errorf("closed %d times in the end (%v), %+v", test.f.Closed(), err, w.Counts())
			}
		})
	}
}

// TestWhatNeedsNoProofDoesNotWaitForOne: the other settings of a change are in force before the first run of the proof
// of larger batches, and no larger batch is formed before that proof.
func TestWhatNeedsNoProofDoesNotWaitForOne(t *testing.T) {
	w := newWorld(t, 1)
	f := times(1)
	run := f.Answer
	var meanwhile []sharedsched.Settings
	edited := false
	f.Answer = func(b *tensor.Batch) error {
		if edited {
			meanwhile = append(meanwhile, w.sched.State().Versions[0].Settings)
		}
		return run(b)
	}
	w.add("m", 1, f, fourRows)
	w.reconcile()
	w.sealed()
	edited = true
	w.edit("m", func(m *modelrepo.Manifest) {
		m.Batching.MaxBatchSize, m.Batching.MaxQueue, m.MaxLatency = 32, 7, config.Duration(time.Second)
	})
	w.reconcile()
	if len(meanwhile) == 0 {
		t.Fatal("nothing was proven")
	}
	if s := meanwhile[0]; s.MaxQueue != 7 || s.MaxLatency != time.Second || s.MaxBatchSize != 4 {
		t.Errorf("in the first run of the proof: %+v", s)
	}
	if b := w.version("m", 1).Batching; b.MaxBatchSize != 32 || b.MaxQueue != 7 {
		t.Errorf("published %+v", b)
	}
}

// fourRows has batches of four rows.
func fourRows(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 4 }

// crowding is a model whose rows are independent up to eight of them. It answers like times(1) as long as there are
// fewer.
func crowding() *fake {
	return overRows(1, func(rows [][]float32) error {
		for i, r := range rows {
			if len(rows) > 8 {
				r[0] += rows[(i+1)%len(rows)][0]
			}
		}
		return nil
	})
}

// TestOtherRowsNeedAReload: requests were checked by the batch dimensions that the version was published with. The
// manifest's dimensions are known at once, those of a proof when it has been made.
func TestOtherRowsNeedAReload(t *testing.T) {
	two := func() *fake {
		f := crowding()
		// perhaps with as many rows, perhaps not
		f.Declared.Inputs = append(f.Declared.Inputs, spec("z", tensor.Float32, tensor.Unknown))
		return f
	}
	for name, test := range map[string]struct {
		change func(*modelrepo.Manifest)
		proof  bool
	}{
		"by the manifest": {func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff }, false},
		"by the proof":    {func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 32 }, true},
	} {
		w := newWorld(t, 1)
		first, second := two(), two()
		w.add("m", 1, first, fourRows)
		w.reconcile()
		if b := w.version("m", 1).Batching; !b.Batched {
			t.Fatal(b.Reason)
		}
		first.Forget()
		w.put("m", 1, second, "first")
		w.edit("m", test.change)
		w.reconcile()
		if v := w.version("m", 1); first.Closed() != 1 || v.Cause != "" ||
			v.Signature.Inputs[0].BatchDim != tensor.NoBatch {
			t.Errorf("%s: closed %d times, cause %q, batch dimension %d", name, first.Closed(), v.Cause,
				v.Signature.Inputs[0].BatchDim)
		}
		if runs := first.Forget(); (len(runs) > 0) != test.proof {
			t.Errorf("%s: what was replaced was run %d times for a proof", name, len(runs))
		}
		if n := len(w.sched.State().Versions); n != 1 {
			t.Errorf("%s: %d versions in the scheduler", name, n)
		}
	}
}

// TestAProofOfNewSizesThatFails leaves the version as it was.
func TestAProofOfNewSizesThatFails(t *testing.T) {
	w := newWorld(t, 1)
	f := times(1)
	f.Declared.Outputs = append(f.Declared.Outputs, spec("n", tensor.Float32, 1))
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		copy(b.Output(1, tensor.Float32, tensor.Shape{1}, 4), []byte{0, 0, 0, 0})
		return run(b)
	}
	w.add("m", 1, f, fourRows)
	w.reconcile()
	w.sealed()
	before := w.version("m", 1).Batching
	w.edit("m", func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn })
	w.reconcile()
	v := w.version("m", 1)
	if v.Batching.Batched != before.Batched ||
		!strings.Contains(v.Cause, `batching.mode is on, but output "n" has no batch dimension`) {
		t.Errorf("published %+v, cause %q", v.Batching, v.Cause)
	}
	if n := len(w.sched.State().Versions); n != 1 || f.Closed() != 0 {
		t.Errorf("%d versions in the scheduler, closed %d times", n, f.Closed())
	}
	w.answers(v, 3)
	w.edit("m", func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchAuto })
	w.reconcile()
	if v := w.version("m", 1); v.Cause != "" {
		t.Errorf("cause %q after the edit was taken back", v.Cause)
	}
	if err := w.Close(t.Context()); err != nil || f.Closed() != 1 || len(w.sched.State().Versions) != 0 {
		t.Errorf("closed %d times in the end (%v)", f.Closed(), err)
	}
}

// TestWeightChangesWithoutAReload: the version moves to another owner of the share while it answers.
func TestWeightChangesWithoutAReload(t *testing.T) {
	w := newWorld(t, 1)
	f := times(2)
	s := &whileAdding{Scheduler: w.sched}
	w.Attach(s)
	w.add("m", 1, f, nil)
	w.reconcile()
	w.sealed()
	s.refuses = errors.New("not these settings")
	w.edit("m", func(m *modelrepo.Manifest) { m.Weight = 1.5 })
	w.reconcile()
	if n := len(w.sched.State().Versions); n != 1 || len(w.flows()) != 1 {
		t.Errorf("a move that failed leaves %d versions, and the flows %+v", n, w.flows())
	}
	s.refuses = nil
	_, end := w.besiege(4, 6)
	for weight := 2.0; weight < 12; weight++ {
		w.edit("m", func(m *modelrepo.Manifest) {
			m.Weight, m.Fairness = weight,
				[...]modelrepo.Fairness{modelrepo.FairModel, modelrepo.FairVersion}[int(weight)%2]
		})
		w.reconcile()
	}
	end()
	flows, versions := w.flows(), w.sched.State().Versions
	if len(flows) != 1 || flows[0].Weight != 11 || flows[0].Name != "m@1" || len(versions) != 1 {
		t.Errorf("flows %+v, versions %+v", flows, versions)
	}
	if v := w.version("m", 1); v.Weight != 11 || v.Cause != "" || f.Closed() != 0 {
		t.Errorf("weight %v, cause %q, closed %d times", v.Weight, v.Cause, f.Closed())
	}
	w.listing = modelrepo.Listing{}
	w.reconcile()
	if f.Closed() != 1 || w.Counts().MemoryInUse != 0 {
		t.Errorf("closed %d times in the end, %+v", f.Closed(), w.Counts())
	}
}

// whileAdding is a scheduler during which something happens while it takes in a version.
type whileAdding struct {
	*shell.Scheduler

	happens func() error // once
	added   []string
	refuses error // all settings
}

func (s *whileAdding) Configure(v sharedsched.VersionID, settings sharedsched.Settings) error {
	return cmp.Or(s.refuses, s.Scheduler.Configure(v, settings))
}

func (s *whileAdding) AddVersion(name string, flow sharedsched.FlowID,
	settings sharedsched.Settings,
) (sharedsched.VersionID, error) {
	happens := s.happens
	s.happens = nil
	if happens != nil {
		if err := happens(); err != nil {
			return 0, err
		}
	}
	s.added = append(s.added, name)
	return s.Scheduler.AddVersion(name, flow, settings)
}

// TestALostReplicaIsNotMoved: its device is lost while the one before it is moved, or it itself, or that fails besides.
// Its session is closed once, and nothing is run on it any more.
func TestALostReplicaIsNotMoved(t *testing.T) {
	for _, c := range []struct {
		lost  string
		fails error
		left  []string
		moves int
	}{
		{"b", nil, []string{"a", "c"}, 1},
		{"a", nil, []string{"b", "c"}, 2},
		{"a", errors.New("full"), []string{"b", "c"}, 1},
	} {
		t.Run(fmt.Sprintf("%s %v", c.lost, c.fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, m := newFleet(t, time.Millisecond, "a", "b", "c")
				s := &whileAdding{Scheduler: w.sched}
				w.Attach(s)
				w.add("m", 1, m.open, replicated(2))
				w.load("m")
				w.on("m", 1, "a", "b")
				moves := 0
				s.added = nil
				s.happens = func() error {
					w.LoseDevice(c.lost, errors.New("fell off the bus"))
					synctest.Wait()
					return c.fails
				}
				m.opens["c"] = func() error {
					moves = len(s.added) // before a further replica is loaded
					return nil
				}
				w.edit("m", func(m *modelrepo.Manifest) { m.Weight = 2 })
				w.load("m")
				synctest.Wait()
				w.on("m", 1, c.left...)
				if moves != c.moves {
					t.Errorf("%d replicas were moved, want %d", moves, c.moves)
				}
				if got, want := m.sessions(), map[string]int{c.left[0]: 1, c.left[1]: 1}; !maps.Equal(got, want) {
					t.Errorf("open sessions: %v", got)
				}
				if n, in := w.Counts(), len(w.sched.State().Versions); n.MemoryInUse != 2<<20 || in != 2 {
					t.Errorf("%d bytes are in use, and %d versions in the scheduler", n.MemoryInUse, in)
				}
				answered(t, w, w.version("m", 1), 4)
			})
		})
	}
}

// TestTheDeviceIsLostWhileItIsProvenAgain: the replica on another device follows the changed manifest anyway.
func TestTheDeviceIsLostWhileItIsProvenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		w.add("m", 1, m.open, func(m *modelrepo.Manifest) {
			m.Replicas, m.Batching.MaxBatchSize = 2, 4
		})
		w.load("m")
		w.on("m", 1, "a", "b")
		m.breaks("a")
		w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 16 })
		w.Follow(w.listing)
		time.Sleep(10 * time.Second)
		w.on("m", 1, "b")
		v := w.version("m", 1)
		if q := w.sched.State().Versions; v.Cause != "" || v.Batching.MaxBatchSize != 16 || len(q) != 1 ||
			q[0].Settings.MaxBatchSize != 16 {
			t.Errorf("cause %q, at most %d rows are published; in the scheduler %+v", v.Cause, v.Batching.MaxBatchSize, q)
		}
	})
}

// TestStateSettings: the bounds of episodes change while the version serves, the tensors that are kept with another
// load, and a place in the file changes nothing.
func TestStateSettings(t *testing.T) {
	w := newWorld(t, 1)
	first, second := times(1), times(1)
	state := modelrepo.State{Pairs: []modelrepo.StatePair{{Input: "x", Output: "y"}}, MaxEpisodes: 5, Text: []byte("{}")}
	fairness, most := modelrepo.FairVersion, 4
	set := func(m *modelrepo.Manifest) {
		m.State, m.Fairness, m.Batching.MaxBatchSize = new(state), fairness, most
	}
	w.add("m", 1, first, set)
	w.reconcile()
	w.put("m", 1, second, "first")
	for _, test := range []struct {
		change                  func()
		episodes, closed, heard int
	}{
		{func() { state.Text, state.File = []byte("# b"), "b" }, 5, 0, 0},
		{func() { state.MaxEpisodes = 7 }, 7, 0, 1},
		{func() { fairness = modelrepo.FairModel }, 7, 0, 2}, // it moves to another flow
		{func() { most = 8 }, 7, 0, 2},                       // it is proven again
		{func() { state.Initial = map[string]config.Scalar{"x": "1"} }, 7, 1, 2},
	} {
		test.change()
		w.edit("m", set)
		w.reconcile()
		v, heard := w.version("m", 1), len(w.logs.Event("version_reconfigured"))
		if s := v.EpisodeState; s == nil || s.MaxEpisodes != test.episodes || first.Closed() != test.closed ||
			heard != test.heard || len(s.Inputs) != 1 || v.Cause != "" {
			t.Errorf("published %+v, cause %q, closed %d times, changed %d times; want %d episodes, %d, %d", s, v.Cause,
				first.Closed(), heard, test.episodes, test.closed, test.heard)
		}
	}
}

// TestNoState: that there is none, and that nothing is said, are settings that a version is loaded with.
func TestNoState(t *testing.T) {
	w := newWorld(t, 1)
	before := times(1)
	w.add("m", 1, before, nil)
	w.reconcile()
	for _, state := range []*modelrepo.State{{None: true}, nil} {
		next := times(1)
		w.put("m", 1, next, "first")
		w.edit("m", func(m *modelrepo.Manifest) { m.State = state })
		w.reconcile()
		if v := w.version("m", 1); before.Closed() != 1 || v.EpisodeState != nil || v.Cause != "" {
			t.Errorf("%+v: closed %d times, published %+v, cause %q", state, before.Closed(), v.EpisodeState, v.Cause)
		}
		before = next
	}
}

// TestStateWithOtherRows: a proof that finds the rows of an output elsewhere has the version loaded again, which finds
// that its state does not fit.
func TestStateWithOtherRows(t *testing.T) {
	turned := func() *fake {
		f := times(1)
		f.Declared.Inputs[0].Shape = tensor.Shape{tensor.Unknown, tensor.Unknown}
		f.Declared.Outputs[0].Shape = tensor.Shape{tensor.Unknown, tensor.Unknown}
		f.Answer = func(b *tensor.Batch) error {
			x := b.Inputs[0]
			copy(b.Output(0, x.DType, tensor.Shape{x.Shape[1], x.Shape[0]}, len(x.Data)), x.Data)
			return nil
		}
		return f
	}
	w := newWorld(t, 1)
	w.add("m", 1, turned(), func(m *modelrepo.Manifest) {
		m.State = &modelrepo.State{Pairs: []modelrepo.StatePair{{Input: "x", Output: "y"}}}
		m.Batching.Mode = modelrepo.BatchOff
	})
	w.reconcile()
	if v := w.version("m", 1); v.Cause != "" || v.Signature.Outputs[0].BatchDim != 0 {
		t.Fatalf("cause %q, rows along dimension %d", v.Cause, v.Signature.Outputs[0].BatchDim)
	}
	w.put("m", 1, turned(), "first")
	w.edit("m", func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchAuto })
	w.reconcile()
	want := "state.pairs[0]: expected rows along one dimension (batching.batch_dim, batching.unbatched): the input has " +
		"rows along dimension 0, the output rows along dimension 1"
	if v := w.version("m", 1); !strings.Contains(v.Cause, want) {
		t.Errorf("cause %q\nwant %s", v.Cause, want)
	}
}
