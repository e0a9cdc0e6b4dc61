package serving

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// lengths is x [?, ?] → y [?, ?], twice x, with lengths filled up to four and eight. It notes the shapes of its runs.
func lengths() (e *weftest.Engine, shapes *[]tensor.Shape, change func(m *modelrepo.Manifest)) {
	e, shapes = model(nil), new([]tensor.Shape)
	e.Declared.Inputs[0].Shape[1], e.Declared.Outputs[0].Shape[1] = tensor.Unknown, tensor.Unknown
	e.Answer = func(b *tensor.Batch) error {
		*shapes = append(*shapes, slices.Clone(b.Inputs[0].Shape))
		time.Sleep(time.Millisecond)
		x := weftest.Values(b.Inputs[0])
		_ = weftest.Double(x)
		y := weftest.Floats(b.Inputs[0].Shape, x...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	return e, shapes, func(m *modelrepo.Manifest) {
		m.Batching.MaxBatchSize = 4
		m.Batching.VariableDims = map[string]modelrepo.VariableDim{"x": {Axis: 1, Buckets: []int{4, 8}}}
	}
}

// TestADemotedVersion joins and fills up nothing: neither waiting requests nor new ones; a request that was split goes
// on with the rest of its rows, and as it began.
func TestADemotedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := model(nil)
		s := serve(
			t,
			e,
			options{change: func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.MaxRequestRows = 4, 8 }},
		)
		calls := []*catalog.Call{s.ask(busy, 2, 3, 4, 5, 6, 7), s.ask(1), s.ask(2), s.ask(1, 2, 3)}
		var ends []<-chan error
		for _, c := range calls {
			ends = append(ends, s.begin(c))
		}
		demote := s.v.Replicas()[0].Demote
		demote("rows meet")
		demote("rows meet again")
		for i, end := range ends {
			if got := outcome(calls[i], <-end); got != "ok" {
				t.Errorf("request %d: %s", i, got)
			}
		}
		if runs := e.Forget(); !slices.Equal(runs, []int{4, 3, 1, 1, 3}) {
			t.Errorf("runs of %v rows", runs)
		}
		if b := s.public().Batching; b.Batched || b.Reason != "taken out of batching: rows meet" || b.MaxBatchSize != 1 ||
			b.MaxRequestRows != 0 || b.Proof != catalog.ProofNone || len(s.logs.Event("version_demoted")) != 1 {
			t.Errorf("published %+v; log %q", b, s.logs.Lines(""))
		}
		calls = []*catalog.Call{s.ask(1), s.ask(2)}
		if got := outcomes(
			calls,
			s.together(calls...),
		); !slices.Equal(got, []string{"ok", "ok"}) ||
			slices.Max(e.Forget()) > 1 {
			t.Errorf("later requests ended as %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e, shapes, change := lengths()
		s := serve(t, e, options{change: change})
		ask := func(rows, length int) *catalog.Call {
			c := s.ask(make([]float32, rows)...)
			c.Inputs[0] = weftest.Floats(tensor.Shape{int64(rows), int64(length)}, slices.Repeat([]float32{3}, rows*length)...)
			return c
		}
		*shapes = nil
		calls := []*catalog.Call{ask(1, 3), ask(6, 3), ask(1, 2)}
		var ends []<-chan error
		for _, c := range calls {
			ends = append(ends, s.begin(c))
		}
		time.Sleep(time.Millisecond + time.Microsecond) // the first four of the six are run
		synctest.Wait()
		s.v.Replicas()[0].Demote("rows meet")
		for i, end := range ends {
			if got := outcome(calls[i], <-end); got != "ok" {
				t.Errorf("request %d: %s", i, got)
			}
		}
		if want := []tensor.Shape{{1, 4}, {4, 4}, {2, 4}, {1, 2}}; !slices.EqualFunc(*shapes, want, slices.Equal) {
			t.Errorf("runs of %v, want %v", *shapes, want)
		}
		if v := s.public().Signature.Inputs[0].Variable; len(v.Buckets) != 0 || v.Most != 8 {
			t.Errorf("published with %+v", v)
		}
	})
}

// TestADemotionLasts until the manifest asks for other batches, which are proven; what was found about an earlier proof
// says nothing then.
func TestADemotionLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, model(nil), options{})
		first := s.v.Replicas()[0]
		proven := s.c.Manifest
		follow := func(change func(m *modelrepo.Manifest)) catalog.Batching {
			t.Helper()
			next := *s.c.Manifest
			change(&next)
			before := s.c.Manifest
			s.c.Manifest = &next
			f, err := s.v.Follow(t.Context(), s.c, before, proven)
			if err != nil || f.Reload {
				t.Fatalf("%+v, %v", f, err)
			}
			if f.Proven {
				proven = &next
			}
			all := slices.Clone(s.v.Replicas())
			for i, r := range all {
				if moved := f.Moved[r]; moved != nil {
					all[i] = moved
				}
			}
			left := s.v.Replicas()
			s.v.Change(all)
			for _, r := range left {
				if !slices.Contains(all, r) {
					r.Finish(t.Context())
				}
			}
			return s.public().Batching
		}
		first.Demote("rows meet")
		for _, change := range []func(m *modelrepo.Manifest){
			func(m *modelrepo.Manifest) { m.Weight = 3 },
			func(m *modelrepo.Manifest) { m.Batching.MaxQueue = 77 },
		} {
			if b := follow(change); b.Batched || b.Reason != "taken out of batching: rows meet" {
				t.Errorf("published %+v", b)
			}
		}
		old := s.v.Replicas()[0]
		if b := follow(func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 16 }); !b.Batched || b.MaxBatchSize != 16 {
			t.Errorf("published %+v", b)
		}
		old.Demote("rows met before")
		if b := s.public().Batching; !b.Batched {
			t.Errorf("published %+v", b)
		}
		now := s.v.Replicas()[0]
		now.proof-- // as if it had been made before
		if _, err := now.Run(
			t.Context(),
			&execution.Job{Rows: 1, Inputs: s.ask(1).Inputs, Task: sharedsched.Task{Alone: true}},
		); !errors.Is(
			err,
			errProvenAnew,
		) {
			t.Errorf("a row of the proof before: %v", err)
		}
		now.proof++
		now.Demote("rows meet now")
		if b := s.public().Batching; b.Batched {
			t.Errorf("published %+v", b)
		}
	})
}

// moded is x [?, 1] and a mode, an integer → y, twice x; rows meet where the mode is 4242.
func moded() *weftest.Engine {
	e := model(nil)
	e.Declared.Inputs = append(e.Declared.Inputs, weftest.Spec("mode", tensor.Int64))
	e.Answer = func(b *tensor.Batch) error {
		x := weftest.Values(b.Inputs[0])
		time.Sleep(time.Duration(len(x)) * time.Millisecond)
		_ = weftest.Double(x)
		if b.Inputs[1].Data[0] == 4242&0xff && len(x) > 1 {
			x[0] += x[len(x)-1]
		}
		y := weftest.Floats(b.Inputs[0].Shape, x...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	return e
}

// TestValues that requests bring: those of one value share executions, and are split and filled up, once that is proven
// with their rows; until then they run as they came. One whose rows meet takes the version out of batching.
func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *modelrepo.Manifest)
		shadow bool
		sizes  []int // of the runs of a request of five rows, once its value is proven
		joined bool
	}{
		"by default":       {func(*modelrepo.Manifest) {}, false, []int{5}, true},
		"two rows at most": {func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 2 }, false, []int{2, 2, 1}, true},
		"one row is dear": {func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchCost = config.Duration(500 * time.Microsecond)
		}, false, []int{1, 1, 1, 1, 1}, false},
		"filled up": {func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchSize, m.Batching.AllowedBatchSizes = 8, []int{4, 8}
		}, false, []int{8}, true},
		"bounds on callers": {func(m *modelrepo.Manifest) {
			m.Batching.MaxRequestRows, m.MaxLatency = 5, config.Duration(40*time.Millisecond)
		}, false, []int{5}, true},
		"of a shadow": {func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 2 }, true, []int{5}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := moded()
			s := serve(t, e, options{change: c.change})
			mode := func(mode byte, rows ...float32) *catalog.Call {
				call := s.ask(rows...)
				call.Shadow = c.shadow
				call.Inputs = append(
					call.Inputs,
					tensor.Tensor{DType: tensor.Int64, Shape: tensor.Shape{}, Data: []byte{mode, 16, 0, 0, 0, 0, 0, 0}},
				)
				return call
			}
			for _, value := range []byte{4243 & 0xff, 4242 & 0xff} {
				meets, sizes := value == 4242&0xff, [][]int(nil)
				for n := range 3 { // the second begins the proof
					e.Forget()
					call := mode(value, 1, 2, 3, 4, float32(n))
					err := s.predict(call)
					want := []float32{2, 4, 6, 8, float32(2 * n)}
					if meets {
						want[0] += want[4]
					}
					if err != nil || !slices.Equal(weftest.Values(call.Results[0]), want) {
						t.Errorf("%s: mode %d: %v, %v", name, value, call.Results, err)
					}
					sizes = append(sizes, e.Forget())
					time.Sleep(time.Minute)
				}
				want := c.sizes
				if meets {
					want = []int{5}
				}
				if !slices.Equal(sizes[0], []int{5}) || !slices.Contains(sizes[1], 5) || !slices.Equal(sizes[2], want) {
					t.Errorf("%s: mode %d: runs of %v, want 5, 5 and %v", name, value, sizes, want)
				}
				if !meets {
					shared := 0
					calls := []*catalog.Call{mode(value, 1), mode(value, 1), mode(value, 1)}
					s.together2(t, mode(value, 1), calls...)
					for _, call := range calls {
						shared = max(shared, call.Outcome.BatchRequests)
					}
					if shared > 1 != c.joined {
						t.Errorf("%s: %d requests share an execution", name, shared)
					}
				}
			}
			const why = `taken out of batching: with what a request brought for "mode", output "y" of a row`
			if b := s.public().Batching; strings.HasPrefix(b.Reason, why) == c.shadow {
				t.Errorf("%s: %+v", name, b)
			}
		})
	}
}

// together2 makes calls that wait behind the first.
func (s *served) together2(t *testing.T, first *catalog.Call, calls ...*catalog.Call) {
	t.Helper()
	ends := []<-chan error{s.begin(first)}
	for _, c := range calls {
		ends = append(ends, s.begin(c))
	}
	for _, end := range ends {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
}

// TestValuesThatNeverComeBack are not proven: nothing else is run for them.
func TestValuesThatNeverComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := moded()
		s := serve(t, e, options{})
		for n := range byte(200) {
			call := s.ask(1)
			call.Inputs = append(
				call.Inputs,
				tensor.Tensor{DType: tensor.Int64, Shape: tensor.Shape{}, Data: []byte{n, 16, 0, 0, 0, 0, 0, 0}},
			)
			if err := s.predict(call); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(e.Forget()); n != 200 {
			t.Errorf("200 requests took %d runs", n)
		}
	})
}

// TestAnswersThatCannotBeDivided: a request whose outputs do not have its rows, or do not fit together where it was
// split, is run as a whole, and the version forms no further batch.
func TestAnswersThatCannotBeDivided(t *testing.T) {
	filter := func(b *tensor.Batch) error { // leaves out each 13
		kept := slices.DeleteFunc(weftest.Values(b.Inputs[0]), func(x float32) bool { return x == 13 })
		y := weftest.Floats(tensor.Shape{int64(len(kept)), 1}, kept...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	widest := func(b *tensor.Batch) error { // is as wide as the largest number
		x := weftest.Values(b.Inputs[0])
		width := int64(max(1, slices.Max(x)))
		clear(b.Output(0, tensor.Float32, tensor.Shape{int64(len(x)), width}, int(4*int64(len(x))*width)))
		return nil
	}
	for name, c := range map[string]struct {
		answer func(b *tensor.Batch) error
		rows   []float32
		shape  tensor.Shape
		runs   []int
		reason string
	}{
		"of a part": {
			filter,
			[]float32{1, 2, 3, 13, 5},
			tensor.Shape{4, 1},
			[]int{2, 2, 5},
			`taken out of batching: in a batch of requests output "y" has the shape [1,1] for 2 rows, expected them in dimension 0`,
		},
		"of parts": {widest, []float32{1, 2, 3}, tensor.Shape{3, 3}, []int{2, 1, 3}, `taken out of batching: the request of 3 rows ` +
			`was split over 2 executions and output "y" cannot be joined: rows 2 to 2 give the shape [1,3], the first 2 rows [2,2]`},
		"alone": {filter, []float32{13, 2}, tensor.Shape{1, 1}, []int{2}, "batching.mode is on"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := model(nil)
			e.Declared.Outputs[0].Shape[1], e.Answer = tensor.Unknown, c.answer
			s := serve(t, e, options{change: few(2)})
			call := s.ask(c.rows...)
			err := s.predict(call)
			if runs := e.Forget(); err != nil || !slices.Equal(call.Results[0].Shape, c.shape) || !slices.Equal(runs, c.runs) ||
				call.Outcome.Executions != len(c.runs) {
				t.Errorf("%s: %v, runs of %v rows, want %v; %+v; %v", name, call.Results, runs, c.runs, call.Outcome, err)
			}
			if b := s.public().Batching; !strings.HasPrefix(b.Reason, c.reason) {
				t.Errorf("%s: %s", name, b.Reason)
			}
		})
	}
}

// TestTasks: what the scheduler is told of calls. Shadows are background whatever their priority; calls without a row,
// and calls that replace a default, run by themselves, and say nothing about what others cost.
func TestTasks(t *testing.T) {
	s := serve(t, weftest.PerRow(1, weftest.Double), options{change: func(m *modelrepo.Manifest) {
		m.MaxLatency = config.Duration(time.Second)
	}})
	r := s.v.Replicas()[0]
	plain, shadow, none := s.ask(1), s.ask(1), s.ask()
	plain.Priority, shadow.Priority, shadow.Shadow = sharedsched.CriticalPlus, sharedsched.CriticalPlus, true
	none.Rows = 0
	for _, c := range []struct {
		call     *catalog.Call
		priority sharedsched.Priority
		alone    bool
	}{
		{plain, sharedsched.CriticalPlus, false},
		{shadow, sharedsched.Sheddable, false},
		{none, sharedsched.Critical, true},
	} {
		var a Attempt
		a.Begin(s.Shared, c.call)
		if task := r.taskOf(&a); task.Priority != c.priority || task.Alone != c.alone || task.Unmeasured != c.alone ||
			!task.OpenEnded || !task.Limit.Equal(a.arrival.Add(time.Second)) {
			t.Errorf("%+v", task)
		}
	}
	plain.Limit = time.Now().Add(time.Minute)
	var a Attempt
	if a.Begin(s.Shared, plain); !r.taskOf(&a).Limit.Equal(plain.Limit) || r.taskOf(&a).OpenEnded {
		t.Errorf("a limit later than the model's: %+v", r.taskOf(&a))
	}
	row := &execution.Job{Rows: 1, Inputs: plain.Inputs, Task: sharedsched.Task{Identity: Proofs}}
	if r.complete(row); row.Task.Key != "alone" || row.Task.Bytes != 4+int64(len("alone")) {
		t.Errorf("a row of a proof: %+v", row.Task)
	}
	if err := s.predict(none); err != nil || !slices.Equal(none.Results[0].Shape, tensor.Shape{0, 1}) {
		t.Errorf("a call without a row: %v, %v", none.Results, err)
	}
}

// TestWhatARowCosts is learnt from requests, whatever they bring, and not from the ones that run alone.
func TestWhatARowCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, moded(), options{})
		for n := range byte(100) {
			call := s.ask(1, 2)
			call.Inputs = append(
				call.Inputs,
				tensor.Tensor{DType: tensor.Int64, Shape: tensor.Shape{}, Data: []byte{n, 16, 0, 0, 0, 0, 0, 0}},
			)
			if err := s.predict(call); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Duration(s.v.Replicas()[0].expects(1)); took < 900*time.Microsecond || took > 1100*time.Microsecond {
			t.Errorf("a row is expected to take %v", took)
		}
	})
}

// TestWhatIsWaitedFor: the device time that unanswered requests are expected to take counts until they end. Refused
// ones count as asked for.
func TestWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, model(nil), options{change: func(m *modelrepo.Manifest) {
			trusted(m)
			m.Batching.MaxQueue = 1
		}})
		if c := s.ask(1); outcome(c, s.predict(c)) != "ok" {
			t.Fatal("it answers nothing")
		}
		r := s.v.Replicas()[0]
		d := r.Device
		first, second := s.begin(s.ask(busy, 2)), s.begin(s.ask(3))
		if p := d.Pending.Load(); p != r.expects(2)+r.expects(1) || p < int64(time.Millisecond)/4 ||
			s.v.waiting() != time.Duration(p) {
			t.Errorf("%v are waited for on the device, and %v of the version", time.Duration(p), s.v.waiting())
		}
		before := d.Asked.Load()
		if _, refused := errors.AsType[*sharedsched.Refusal](
			s.predict(s.ask(4)),
		); !refused ||
			s.v.Fare(time.Second).Refused != 1 ||
			d.Asked.Load() != before+r.expects(1) {
			t.Error("a request is not refused, or not counted")
		}
		background, pending := s.ask(4), d.Pending.Load()
		background.Shadow = true
		third := s.begin(background)
		if p := d.Pending.Load(); p != pending {
			t.Errorf("%v are waited for with a shadow, and %v without", p, pending)
		}
		if err := errors.Join(<-first, <-second, <-third); err != nil || d.Pending.Load() != 0 || s.v.waiting() != 0 {
			t.Errorf("%v are waited for in the end, %v", d.Pending.Load(), err)
		}
		if f := s.v.Fare(time.Second); f.Replicas != 1 || f.Used < 1 || f.Used > 1.01 {
			t.Errorf("it fared %+v", f)
		}
	})
}

// TestStalls: a version answers nothing while a run hangs and no other ended well for a second, and while its process
// is started again for longer than that.
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := model(func(rows [][]float32) error {
			if rows[0][0] >= 1000 {
				time.Sleep(time.Duration(rows[0][0]) * time.Millisecond)
			}
			return nil
		})
		s := serve(t, e, options{lanes: 2, change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff }})
		stalls := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := s.public().Stalled; got != want {
				t.Errorf("stalled %q, want %q", got, want)
			}
		}
		answered := func() {
			t.Helper()
			if c := s.ask(1); outcome(c, s.predict(c)) != "ok" {
				t.Error("it answers nothing")
			}
		}
		slow := func(seconds float32) <-chan error {
			call := s.ask(1000 * seconds)
			call.Limit = time.Now().Add(time.Hour)
			return s.begin(call)
		}
		const hangs = "a run on dev hangs"
		for range 2 {
			answered()
			end := slow(4)
			time.Sleep(time.Second - 1)
			stalls("")
			time.Sleep(time.Nanosecond)
			stalls(hangs)
			if err := <-end; err != nil {
				t.Error(err)
			}
			stalls("")
		}
		answered()
		end := slow(60)
		for range 20 {
			time.Sleep(900 * time.Millisecond)
			answered() // in the other lane
			stalls("")
		}
		time.Sleep(time.Second - 1)
		stalls("")
		time.Sleep(time.Nanosecond)
		stalls(hangs)
		<-end
		stalls("")

		process := func(p engine.Process) {
			e.Known.Process = p
			s.Stirred()
		}
		first := engine.Process{Deaths: 1, Last: time.Now(), Cause: "SIGFPE", Down: time.Now()}
		process(first)
		time.Sleep(900 * time.Millisecond)
		stalls("")
		if live := s.public().Live(); !live.Restarting[0] || live.Crashes.Deaths != 1 || live.Crashes.Death != "SIGFPE" ||
			!live.Crashes.DeathAt.Equal(first.Last) {
			t.Errorf("a process that is started again: %+v", live)
		}
		time.Sleep(100*time.Millisecond - 1)
		stalls("")
		time.Sleep(time.Nanosecond)
		stalls("its process on dev died and is being started again")
		first.Down = time.Time{}
		process(first)
		stalls("")
		if live := s.public().Live(); live.Restarting[0] || live.Crashes.Deaths != 1 {
			t.Errorf("a process that was started again: %+v", live)
		}
		if stalled, resumed := s.logs.Event(
			"version_stalled",
		), s.logs.Event(
			"version_resumed",
		); len(stalled) != 4 ||
			len(resumed) != 4 {
			t.Errorf("logged %d times that it is stalled, %d times that it answers again", len(stalled), len(resumed))
		}
	})
}

// TestPick: the replica that is expected to answer first, but none that is stalled while another is not, nor one on a
// lost device.
func TestPick(t *testing.T) {
	s := serve(t, weftest.PerRow(1, weftest.Double), options{})
	near, far := &fleet.Device{Name: "near"}, &fleet.Device{Name: "far"}
	far.Pending.Store(1000)
	v := &Version{shared: s.Shared}
	quick, slow := &Replica{Version: v, Device: near}, &Replica{Version: v, Device: far}
	v.Change([]*Replica{slow, quick})
	if v.Pick(1) != quick {
		t.Error("the one that has to wait is picked")
	}
	why := "a run hangs"
	if quick.stalled.Store(&why); v.Pick(1) != slow || v.Stalled() != "" {
		t.Error("the one that is stalled is picked")
	}
	if slow.stalled.Store(&why); v.Pick(1) != quick || v.Stalled() != why+"; "+why {
		t.Errorf("where all are stalled: %q", v.Stalled())
	}
	quick.perRow.Store(2000)
	if v.Pick(1) != slow || v.waiting() != 0 {
		t.Error("what a row costs is not looked at")
	}
}

// TestAHurriedHang: once the owner hurries, a run that hangs is stopped when it has taken twice as long as any before,
// and no other is.
func TestAHurriedHang(t *testing.T) {
	for slowest, stops := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Second: 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var takes atomic.Int64
			e := weftest.PerRow(1, weftest.Double)
			run, stopped := e.Answer, make(chan struct{})
			e.Answer = func(b *tensor.Batch) error {
				select {
				case <-time.After(time.Duration(takes.Load())):
					return run(b)
				case <-stopped:
					return errCrash
				}
			}
			e.Opened.Interrupt = func() { close(stopped) }
			s := serve(t, e, options{})
			for _, took := range []time.Duration{slowest, 0} {
				takes.Store(int64(took))
				if c := s.ask(1); outcome(c, s.predict(c)) != "ok" {
					t.Fatal("it answers nothing")
				}
			}
			began := time.Now()
			s.Hurry()
			takes.Store(int64(time.Hour))
			call := s.ask(5)
			call.Limit = began.Add(time.Hour)
			err := s.predict(call)
			if failed, is := errors.AsType[*catalog.ModelError](err); !is || !failed.Crashed || time.Since(began) != stops {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}

// TestSettings: the scheduler's, by a manifest and what was proven; also for each model.yaml of docs/migrate, as
// the pages say.
func TestSettings(t *testing.T) {
	m := modelrepo.Defaults()
	m.TargetLatency, m.MaxLatency = config.Duration(3*time.Millisecond), config.Duration(time.Second)
	b := &m.Batching
	b.BatchTimeout, b.MaxBatchCost = config.Duration(time.Millisecond), config.Duration(time.Minute)
	b.MaxQueue, b.MaxRequestRows, b.AllowedBatchSizes = 5, 40, []int{4, 16}
	b.OnFull = modelrepo.WaitWhenFull
	v := proof.Verdict{Batched: true, Most: 16, Allowed: []int{4, 16}, RowMemory: 7}
	want := sharedsched.Settings{
		Batched: true, MaxBatchSize: 16, MaxBatchCost: time.Minute, BatchTimeout: time.Millisecond, MaxQueue: 5,
		MaxRequestRows: 40, AllowedBatchSizes: []int{4, 16}, TargetLatency: 3 * time.Millisecond, MaxLatency: time.Second,
		WaitWhenFull: true, RowMemory: 7,
	}
	if diff := cmp.Diff(want, settings(&m, v)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if s := settings(&m, proof.Verdict{}); s.Batched || s.MaxBatchSize != 1 || s.MaxRequestRows != 0 {
		t.Errorf("settings of what is not batched: %+v", s)
	}

	pages, err := filepath.Glob("../../docs/migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []sharedsched.Settings
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			text, _, _ := strings.Cut(block, "```")
			m, err := modelrepo.ReadManifest(page, []byte(text))
			if err != nil {
				t.Error(err)
				continue
			}
			most := proof.Verdict{Batched: true, Most: m.Batching.Largest(), Allowed: m.Batching.AllowedBatchSizes}
			got = append(got, settings(&m, most.Under(&m.Batching)))
		}
	}
	base := sharedsched.Settings{
		Batched:        true,
		MaxBatchCost:   100 * time.Millisecond,
		MaxRequestRows: 4096,
		MaxLatency:     10 * time.Second,
	}
	reflex, tfs, triton := base, base, base
	tfs.MaxBatchSize, tfs.AllowedBatchSizes, tfs.BatchTimeout = 128, []int{8, 32, 128}, 2*time.Millisecond
	reflex.MaxBatchSize, tfs.MaxQueue, tfs.MaxRequestRows = 64, 1024, 128
	triton.MaxBatchSize, triton.BatchTimeout, triton.MaxQueue, triton.MaxLatency = 8, 100*time.Microsecond, 200,
		500*time.Millisecond
	if diff := cmp.Diff([]sharedsched.Settings{reflex, tfs, triton}, got); diff != "" {
		t.Errorf("settings of the pages (-want +got):\n%s", diff)
	}
}

// request warms up with the input x.
func request(rows, count int, in modelrepo.WarmupInput) modelrepo.Warmup {
	return modelrepo.Warmup{Name: "a b", BatchSize: rows, Count: count, Inputs: map[string]modelrepo.WarmupInput{"x": in}}
}

// TestWarmUpRequests are run before a version is ready, as often and with as many rows as they say, split as requests
// are. One that cannot be made, or fails, is a fault of the version.
func TestWarmUpRequests(t *testing.T) {
	dir := t.TempDir() // the model's
	row := weftest.Floats(tensor.Shape{1, 2}, 7, -1).Data
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "warmup"), 0o755),
		os.WriteFile(filepath.Join(dir, "warmup", "row"), row, 0o600)); err != nil {
		t.Fatal(err)
	}
	file := func(file string, shape ...int64) modelrepo.WarmupInput {
		return modelrepo.WarmupInput{Shape: shape, File: file}
	}
	made := func(data modelrepo.WarmupData, shape ...int64) modelrepo.WarmupInput {
		return modelrepo.WarmupInput{Shape: shape, Data: data}
	}
	for name, c := range map[string]struct {
		requests []modelrepo.Warmup
		seen     [][]float32 // the rows of the last runs
		fault    string
	}{
		"zeros":        {requests: []modelrepo.Warmup{request(2, 2, made(modelrepo.ZeroData, 2))}, seen: [][]float32{{0, 0, 0, 0}, {0, 0, 0, 0}}},
		"a row":        {requests: []modelrepo.Warmup{request(3, 1, file("row", 2))}, seen: [][]float32{{7, -1, 7, -1, 7, -1}}},
		"a whole file": {requests: []modelrepo.Warmup{request(9, 1, file("row", 1, 2))}, seen: [][]float32{{7, -1}}},
		"many rows": {
			requests: []modelrepo.Warmup{request(5, 1, made(modelrepo.ZeroData, 2))},
			seen:     [][]float32{make([]float32, 8), {0, 0}},
		},
		"that fails":       {requests: []modelrepo.Warmup{request(1, 1, file("row", 2)), request(1, 1, made(modelrepo.ZeroData, 2))}, fault: "no such row"},
		"another shape":    {requests: []modelrepo.Warmup{request(1, 1, made(modelrepo.ZeroData, 3))}, fault: `inputs["x"].shape`},
		"another rank":     {requests: []modelrepo.Warmup{request(1, 1, made(modelrepo.ZeroData, 1, 1, 2))}, fault: `inputs["x"].shape`},
		"no file":          {requests: []modelrepo.Warmup{request(1, 1, file("none", 2))}, fault: "warmup/none does not exist; put the input there"},
		"a directory":      {requests: []modelrepo.Warmup{request(1, 1, file(".", 2))}, fault: "warmup is not a regular file"},
		"too large a file": {requests: []modelrepo.Warmup{request(1, 1, file("row", 1))}, fault: "asks for 1 elements of 4 bytes, got 8 bytes; correct the file"},
		"no input":         {requests: []modelrepo.Warmup{{Name: "a b", BatchSize: 1, Count: 1}}, fault: `it has no input "x"; add it`},
		"another input": {requests: []modelrepo.Warmup{{
			Name: "a b", BatchSize: 1, Count: 1,
			Inputs: map[string]modelrepo.WarmupInput{"x": made(modelrepo.ZeroData, 2), "z": {}},
		}}, fault: `the model has no input "z", only x; correct the name`},
		"another type": {requests: []modelrepo.Warmup{request(1, 1, modelrepo.WarmupInput{
			Shape: tensor.Shape{2}, DType: modelrepo.DType(tensor.Int8),
		})}, fault: `input "x": its elements are int8, but the model expects fp32; correct the type`},
	} {
		var seen [][]float32
		e := weftest.OverRows(2, func(rows [][]float32) error {
			if seen = append(seen, slices.Concat(rows...)); name == "that fails" && rows[0][0] == 7 {
				return errFailedRow
			}
			return nil
		})
		_, err := opened(t, e, options{dir: filepath.Join(dir, "1"), change: func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchSize, m.Warmup = 4, c.requests
		}})
		if c.fault == "" {
			if err != nil || !slices.EqualFunc(seen[len(seen)-len(c.seen):], c.seen, slices.Equal) {
				t.Errorf("%s: the last runs are %v, %v", name, seen[len(seen)-len(c.seen):], err)
			}
		} else if err == nil || !strings.Contains(err.Error(), `warm-up request "a b": `) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %s", name, err, c.fault)
		}
	}
}

var errFailedRow = errors.New("no such row")

// TestWhatDoesNotFit the model, of what the manifest says, is a fault of the version, with where it was said.
func TestWhatDoesNotFit(t *testing.T) {
	for place, change := range map[string]func(m *modelrepo.Manifest){
		"": func(m *modelrepo.Manifest) { m.Batching.Unbatched = []string{"z"} },
		"config.pbtxt": func(m *modelrepo.Manifest) {
			m.Declared = &modelrepo.Declared{File: "config.pbtxt", Inputs: []modelrepo.DeclaredTensor{{Name: "z"}}}
		},
	} {
		s, err := opened(t, weftest.PerRow(1, weftest.Double), options{change: change})
		if place == "" {
			place = s.c.Version.Path
		}
		if err == nil || !strings.HasPrefix(err.Error(), place+": ") || !strings.Contains(err.Error(), `"z"`) &&
			!strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%v", err)
		}
		if n := len(s.sched.State().Versions); n != 0 {
			t.Errorf("%d versions are in the scheduler", n)
		}
	}
}
