package host_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// addPipeline puts the pipeline p into the listing, which takes x and gives the outputs of its file. What the joined
// model would answer does not matter: its steps answer.
func (w *world) addPipeline(text string) *modelrepo.Pipeline {
	w.t.Helper()
	p, err := modelrepo.ReadPipeline("pipeline.yaml", []byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	w.add("p", 1, nil, trustBatches)
	w.resolve(p)
	return p
}

// joined stands for the joined model: it gives its input for each output.
func joined(p *modelrepo.Pipeline) *fake {
	e := perRow(1, func([]float32) error { return nil })
	outputs := slices.Sorted(maps.Keys(p.Outputs))
	e.Declared.Outputs = nil
	for _, out := range outputs {
		e.Declared.Outputs = append(e.Declared.Outputs, spec(out, tensor.Float32, tensor.Unknown, 1))
	}
	e.Answer = func(b *tensor.Batch) error {
		in := b.Inputs[0]
		for o := range outputs {
			copy(b.Output(o, in.DType, in.Shape, len(in.Data)), in.Data)
		}
		return nil
	}
	return e
}

// resolve has the pipeline name the versions that are listed now.
func (w *world) resolve(p *modelrepo.Pipeline) {
	own := *p
	own.Steps = slices.Clone(p.Steps)
	prints := []string{"first"}
	for i, s := range own.Steps {
		for _, m := range w.listing.Models {
			if m.Name == s.Model {
				own.Steps[i].Of = m.Versions[0]
				prints = append(prints, m.Versions[0].Fingerprint)
			}
		}
	}
	w.change("p", func(m *modelrepo.Model) {
		m.Versions[0].Pipeline, m.Versions[0].Fingerprint = &own, strings.Join(prints, " ")
		m.Selected[0] = m.Versions[0]
		w.engine(m.Versions[0].Path, joined(p))
	})
}

func trustBatches(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn }

// line is a model of a*x + b, in float32.
type line struct{ a, b float32 }

func (l line) of(x float32) float32 { return l.a*x + l.b }

func (l line) engine() *fake {
	return perRow(1, func(row []float32) error {
		row[0] = l.of(row[0])
		return nil
	})
}

// drawPipeline returns a random pipeline of steps s0, s1 and so on, of the models m0, m1 and so on.
func drawPipeline(rng *rand.Rand, models int) string {
	var b strings.Builder
	n := 2 + rng.IntN(4)
	conditional := make([]bool, n)
	used := make([]bool, n)
	source := func(i int) string {
		if i == 0 || rng.IntN(4) == 0 {
			return "x"
		}
		at := rng.IntN(i)
		used[at] = true
		return fmt.Sprintf("s%d.y", at)
	}
	b.WriteString("joined: false\nsteps:\n")
	for i := range n {
		from := source(i)
		fmt.Fprintf(&b, "- {name: s%d, model: m%d, version: 1, inputs: {x: %s}", i, rng.IntN(models), from)
		conditional[i] = from != "x" && conditional[from[1]-'0']
		if rng.IntN(3) == 0 {
			fmt.Fprintf(&b, ", repeat: %d, carry: {x: y}", 2+rng.IntN(3))
		}
		if i > 0 && rng.IntN(2) == 0 {
			at := rng.IntN(i)
			used[at], conditional[i] = true, true
			bound := []string{"above", "below"}[rng.IntN(2)]
			fmt.Fprintf(&b, ", when: {output: s%d.y, %s: %.2f}", at, bound, rng.NormFloat64()*2)
		}
		b.WriteString("}\n")
	}
	var outputs, defaults []string
	for i := range n {
		if used[i] && rng.IntN(2) == 0 {
			continue
		}
		outputs = append(outputs, fmt.Sprintf("o%d: s%d.y", i, i))
		if conditional[i] {
			defaults = append(defaults, fmt.Sprintf("o%d: %d", i, -i))
		}
	}
	if n > 0 && !conditional[n-1] { // one value under two names
		outputs = append(outputs, fmt.Sprintf("o9: s%d.y", n-1))
	}
	fmt.Fprintf(&b, "outputs: {%s}\n", strings.Join(outputs, ", "))
	if len(defaults) > 0 {
		fmt.Fprintf(&b, "defaults: {%s}\n", strings.Join(defaults, ", "))
	}
	return b.String()
}

// follow answers one row as the file says; a step that does not run for it has no value.
func follow(p *modelrepo.Pipeline, models []line, x float32, ran []int) map[string]float32 {
	values := map[string]float32{"x": x}
	for i, s := range p.Steps {
		v, has := values[s.Inputs["x"]]
		if s.When != nil {
			gate, known := values[s.When.Output]
			has = has && known && s.When.Passes(float64(gate))
		}
		if !has {
			continue
		}
		m, _ := strconv.Atoi(s.Model[1:])
		for range s.Repeat {
			v = models[m].of(v)
			ran[m]++
		}
		values[p.Steps[i].Name+".y"] = v
	}
	answer := map[string]float32{}
	for out, from := range p.Outputs {
		v, has := values[from]
		if !has {
			n, _ := strconv.ParseFloat(string(p.Defaults[out]), 32)
			v = float32(n)
		}
		answer[out] = v
	}
	return answer
}

// TestSteps has random pipelines answer requests of many callers at once: each row is answered as the steps say, and
// each model has run exactly the rows that pass.
func TestSteps(t *testing.T) {
	for seed := range uint64(weftest.Times(20, 1000)) {
		rng := rand.New(rand.NewPCG(seed, 40))
		w := newWorld(t, 2)
		var models []line
		var engines []*fake
		for i := range 3 {
			models = append(models, line{float32(rng.NormFloat64()), float32(rng.NormFloat64())})
			engines = append(engines, models[i].engine())
			w.add(fmt.Sprintf("m%d", i), 1, engines[i], trustBatches)
		}
		text := drawPipeline(rng, len(models))
		p := w.addPipeline(text)
		v := w.load("p")
		for _, e := range engines {
			e.Forget()
		}
		ran := make([]int, len(models))
		var calls sync.WaitGroup
		for range 12 {
			rows := make([]float32, 1+rng.IntN(9))
			want := map[string][]float32{}
			for i := range rows {
				rows[i] = float32(rng.NormFloat64() * 3)
				for out, y := range follow(p, models, rows[i], ran) {
					want[out] = append(want[out], y)
				}
			}
			calls.Go(func() {
				call := ask(v, len(rows), rows...)
				if err := w.Predict(t.Context(), call); err != nil {
					t.Errorf("seed %d: %v\n%s", seed, err, text)
					return
				}
				lies := map[*byte]bool{}
				for o, out := range v.Signature.Outputs {
					if at := &call.Results[o].Data[0]; lies[at] {
						t.Errorf("seed %d: two outputs share their memory\n%s", seed, text)
					} else {
						lies[at] = true
					}
					if got := values(call.Results[o]); !slices.Equal(got, want[out.Name]) {
						t.Errorf("seed %d: %s of %v is %v, want %v\n%s", seed, out.Name, rows, got, want[out.Name], text)
					}
				}
			})
		}
		calls.Wait()
		for i, e := range engines {
			rows := 0
			for _, n := range e.Forget() {
				rows += n
			}
			if rows != ran[i] { // without padding: no sizes are prescribed
				t.Errorf("seed %d: m%d ran %d rows, want %d\n%s", seed, i, rows, ran[i], text)
			}
		}
	}
}

const selection = `
steps:
- {name: look, model: m0, version: 1, inputs: {x: x}}
- {name: rank, model: m1, version: 1, inputs: {x: x}, when: {output: look.y, above: 0.5}}
outputs: {score: look.y, rank: rank.y}
defaults: {rank: -1}
`

// TestStepsAreCharged: the device time of all steps is the pipeline's, in one flow, and that of a step with a condition
// is that of the rows that pass.
func TestStepsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := map[string]time.Duration{}
		w := newWorldOf(t, 1, func(c *host.Config) {
			c.Stepped = func(_ string, _ int64, step string, took time.Duration) { steps[step] += took }
		})
		for i, took := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
			w.add(fmt.Sprintf("m%d", i), 1, perRow(1, func([]float32) error {
				time.Sleep(took)
				return nil
			}), trustBatches)
		}
		w.addPipeline(selection)
		v := w.load("p")
		const requests = 300
		before := w.sched.State()
		var device time.Duration
		for i := range requests {
			call := ask(v, 1, float32((i%10)/9)) // one in ten passes
			if err := w.Predict(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			device += call.Outcome.DeviceTime
		}
		served := map[string]time.Duration{}
		for _, f := range w.sched.State().Flows {
			served[f.Name] += f.Served
		}
		for _, f := range before.Flows {
			served[f.Name] -= f.Served
		}
		want := requests*time.Millisecond + requests/10*10*time.Millisecond
		if got := served["identity p@1"]; got < want*9/10 || got > want*11/10 || device < want*9/10 || device > want*11/10 {
			t.Errorf("the pipeline was charged %v, its calls say %v, want %v", got, device, want)
		}
		if look, rank := steps["look"], steps["rank"]; look != requests*time.Millisecond || look != rank {
			t.Errorf("the steps took %v and %v, want %v each", look, rank, requests*time.Millisecond)
		}
		if served["m0@1"]+served["m1@1"] != 0 {
			t.Errorf("the steps' models were charged %v and %v, want nothing", served["m0@1"], served["m1@1"])
		}
	})
}

// TestDeadlineOfLaterSteps: a request whose later steps cannot end in time is refused before anything runs.
func TestDeadlineOfLaterSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		var runs [2]atomic.Int64
		var slow atomic.Int64
		for i, took := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
			w.add(fmt.Sprintf("m%d", i), 1, perRow(1, func([]float32) error {
				runs[i].Add(1)
				time.Sleep(took + time.Duration(slow.Load()))
				return nil
			}), trustBatches)
		}
		w.addPipeline(selection)
		v := w.load("p")
		for range 20 {
			if err := w.Predict(t.Context(), ask(v, 1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		// The first step takes longer than ever, and leaves no time for the second.
		slow.Store(int64(60 * time.Millisecond))
		call := ask(v, 1, 1)
		call.Limit = time.Now().Add(100 * time.Millisecond)
		err := w.Predict(t.Context(), call)
		if o := call.Outcome; err == nil || o.Executions != 1 || o.Batch == 0 || o.Device == "" {
			t.Errorf("%v with %+v, want the batch of the first step", err, o)
		}
		slow.Store(0)
		runs[0].Store(0)
		refused, last := 0, error(nil)
		for range 1000 {
			call := ask(v, 1, 1)
			call.Limit = time.Now().Add(20 * time.Millisecond)
			err := w.Predict(t.Context(), call)
			last = err
			if _, is := errors.AsType[*sharedsched.Refusal](err); is && call.Outcome.Executions == 0 {
				refused++
			}
			time.Sleep(time.Millisecond)
		}
		if refused < 990 || runs[0].Load() > 10 {
			t.Errorf("%d of 1000 were refused, and the first step has run %d times (%v)", refused, runs[0].Load(), last)
		}
	})
}

// TestCancelBetweenSteps: once the caller is gone, nothing more runs.
func TestCancelBetweenSteps(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller is gone")
	w.add("m0", 1, perRow(1, func([]float32) error {
		cancel(gone)
		return nil
	}), trustBatches)
	second := line{1, 0}.engine()
	w.add("m1", 1, second, trustBatches)
	w.addPipeline(selection)
	v := w.load("p")
	second.Forget()
	call := ask(v, 1, 1)
	if err := w.Predict(ctx, call); !errors.Is(err, gone) {
		t.Errorf("the error is %v", err)
	}
	if runs := second.Forget(); len(runs) > 0 {
		t.Errorf("the second step ran %v", runs)
	}
}

// TestStepIsInUse: a version that a pipeline asks is not unloaded by hand.
func TestStepIsInUse(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m0", 1, line{1, 0}.engine(), trustBatches)
	w.add("m1", 1, line{1, 0}.engine(), trustBatches)
	w.addPipeline(selection)
	w.load("p")
	err := w.UnloadVersion(t.Context(), "m1", 1)
	if used, is := errors.AsType[*catalog.InUseError](err); !is || !slices.Equal(used.By, []string{`pipeline "p" version 1`}) {
		t.Errorf("the error is %v, want one that names the pipeline", err)
	}
	if err := w.UnloadVersion(t.Context(), "p", 1); err != nil {
		t.Fatal(err)
	}
	if err := w.UnloadVersion(t.Context(), "m1", 1); err != nil {
		t.Errorf("without the pipeline: %v", err)
	}
}

// TestStepOnALostDevice: requests that wait at a step are answered by its version elsewhere, and nothing stays behind.
func TestStepOnALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 100*time.Millisecond, "a", "b")
		w.add("m0", 1, m.open, func(m *modelrepo.Manifest) {
			tiny(m)
			m.MaxLatency = 0
		})
		w.addPipeline("joined: false\nsteps: [{name: s, model: m0, version: 1, inputs: {x: x}}]\noutputs: {y: s.y}\n")
		w.edit("p", func(m *modelrepo.Manifest) { m.MaxLatency = 0 })
		v := w.load("p")
		lost := where(w.version("m0", 1))[0]
		for _, back := range []string{"a", "b"} {
			m.opens[back] = func() error {
				time.Sleep(3 * time.Second)
				return nil
			}
		}
		var calls sync.WaitGroup
		for _, at := range []*catalog.Version{w.version("m0", 1), w.version("m0", 1), v} {
			calls.Go(func() {
				// The one that runs when the device breaks may fail.
				if err := w.Predict(t.Context(), ask(at, 1, 21)); err != nil && at == v {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		m.breaks(lost)
		calls.Wait()
		if err := w.Predict(t.Context(), ask(v, 1, 21)); err != nil {
			t.Error(err)
		}
	})
}

// TestBecomesStaged: a request that was routed while the pipeline was joined does not pass over its conditions.
func TestBecomesStaged(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m0", 1, line{1, 0}.engine(), trustBatches)
	w.add("m1", 1, line{2, 0}.engine(), trustBatches)
	always := strings.NewReplacer(", when: {output: look.y, above: 0.5}", "", "defaults: {rank: -1}", "")
	w.addPipeline(always.Replace(selection))
	old := w.load("p")
	p, err := modelrepo.ReadPipeline("pipeline.yaml", []byte(selection))
	if err != nil {
		t.Fatal(err)
	}
	w.resolve(p)
	w.put("p", 1, joined(p), "second")
	w.reconcile()
	if err := w.Predict(t.Context(), ask(old, 1, 0.25)); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("the error is %v, want one that has it routed again", err)
	}
	call := ask(w.version("p", 1), 1, 0.25)
	if err := w.Predict(t.Context(), call); err != nil || values(call.Results[0])[0] != -1 {
		t.Errorf("a new one is answered with %v, %v", call.Results, err)
	}
}

// TestStepThatLoadsLong: a pipeline waits for it, however long that takes, and is asleep meanwhile: in a bubble, time
// would stand still otherwise.
func TestStepThatLoadsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		slow := line{2, 0}.engine()
		w.add("m0", 1, func(string) (engine.Opened, error) {
			time.Sleep(time.Minute)
			o := slow.Open()
			o.Device, o.Provider = "dev", "fake"
			return o, nil
		}, trustBatches)
		w.add("m1", 1, line{1, 0}.engine(), trustBatches)
		w.addPipeline(selection)
		if v := w.load("p"); v.State != catalog.Ready {
			t.Errorf("the pipeline is %v: %s", v.State, v.Cause)
		}
	})
}

// TestStepsShareBatches: a row of a pipeline runs in one batch with a direct caller's.
func TestStepsShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		second := line{1, 0}.engine()
		w.add("m1", 1, second, func(m *modelrepo.Manifest) {
			trustBatches(m)
			m.Batching.BatchTimeout = config.Duration(time.Second)
		})
		w.addPipeline(selection)
		v := w.load("p")
		second.Forget()
		var calls sync.WaitGroup
		for _, at := range []*catalog.Version{v, w.version("m1", 1)} {
			calls.Go(func() {
				if err := w.Predict(t.Context(), ask(at, 1, 1)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		calls.Wait()
		if runs := second.Forget(); !slices.Equal(runs, []int{2}) {
			t.Errorf("the second model ran batches of %v rows, want one of 2", runs)
		}
	})
}

// TestStepReplacedMeanwhile: a request that has begun is answered by the versions of its beginning, which are closed
// after it.
func TestStepReplacedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		old := line{2, 0}.engine()
		w.add("m1", 1, old, trustBatches)
		p := w.addPipeline(selection)
		w.load("p")
		at, free := make(chan struct{}), make(chan struct{})
		var begun atomic.Bool // the runs before are of the load
		w.put("m0", 1, perRow(1, func([]float32) error {
			if begun.CompareAndSwap(true, false) {
				at <- struct{}{}
				<-free
			}
			return nil
		}), "second")
		w.resolve(p)
		w.reconcile()
		v := w.version("p", 1)
		call := ask(v, 1, 3)
		begun.Store(true)
		ended := make(chan error)
		go func() { ended <- w.Predict(t.Context(), call) }()
		<-at
		w.put("m1", 1, line{100, 0}.engine(), "second")
		w.resolve(p)
		if err := w.Reconcile(t.Context(), w.listing); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if old.Closed() > 0 {
			t.Fatal("the step's version was closed before the request came to it")
		}
		close(free)
		if err := <-ended; err != nil || values(call.Results[0])[0] != 6 {
			t.Errorf("the answer is %v, %v; want 6, of the version of the beginning", call.Results, err)
		}
		time.Sleep(time.Second)
		if old.Closed() != 1 {
			t.Errorf("the old version was closed %d times", old.Closed())
		}
		if again := ask(w.version("p", 1), 1, 3); w.Predict(t.Context(), again) != nil || values(again.Results[0])[0] != 300 {
			t.Errorf("the next answer is %v, want 300", again.Results)
		}
	})
}

// TestJoinedModelIsFreed: what takes memory of a pipeline whose steps answer is the steps.
func TestJoinedModelIsFreed(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m0", 1, line{1, 0}.engine(), trustBatches)
	w.add("m1", 1, line{2, 0}.engine(), func(m *modelrepo.Manifest) {
		trustBatches(m)
		m.Batching.MaxRequestRows = 7
	})
	p := w.addPipeline(selection)
	first := joined(p)
	w.engine(w.listing.Models[2].Versions[0].Path, first)
	w.sized("m0", 1, 1<<20)
	w.load("m0")
	w.load("m1")
	before := w.Counts().MemoryInUse
	v := w.load("p")
	if took := w.Counts().MemoryInUse - before; took != 0 || first.Closed() != 1 {
		t.Errorf("it takes %d bytes, its session was closed %d times", took, first.Closed())
	}
	if v.Batching.MaxRequestRows != 7 {
		t.Errorf("its requests may have %d rows, want 7 as those of the second step", v.Batching.MaxRequestRows)
	}
	// Another proof needs another session.
	second := joined(p)
	w.engine(w.listing.Models[2].Versions[0].Path, second)
	w.edit("p", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 512 })
	w.reconcile()
	if call := ask(w.version("p", 1), 1, 3); w.Predict(t.Context(), call) != nil || values(call.Results[0])[0] != 6 {
		t.Errorf("after another batch size the answer is %v, want 6", call.Results)
	}
	if second.Closed() != 1 {
		t.Errorf("it was proven again by a session that was closed %d times", second.Closed())
	}
	if err := w.UnloadVersion(t.Context(), "p", 1); err != nil || w.Counts().MemoryInUse != before {
		t.Errorf("in the end %d bytes, %v; want %d", w.Counts().MemoryInUse, err, before)
	}
}

// TestRowsThatRarelyPass: the time of a later step is judged by how many rows lately passed, and by one at least.
func TestRowsThatRarelyPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for i, took := range []time.Duration{0, 10 * time.Millisecond} {
			w.add(fmt.Sprintf("m%d", i), 1, perRow(1, func([]float32) error {
				time.Sleep(took)
				return nil
			}), trustBatches)
		}
		w.addPipeline(selection)
		v := w.load("p")
		rows := make([]float32, 20)
		rows[7] = 1
		predict := func(limit time.Duration, rows ...float32) error {
			call := ask(v, len(rows), rows...)
			call.Limit = time.Now().Add(limit)
			return w.Predict(t.Context(), call)
		}
		for range 50 {
			if err := predict(time.Minute, rows...); err != nil {
				t.Fatal(err)
			}
		}
		if err := predict(30*time.Millisecond, rows...); err != nil {
			t.Errorf("20 rows that take 10 ms, within 30: %v", err)
		}
		for _, n := range []int{1, 20} {
			if err := predict(5*time.Millisecond, rows[:n]...); err == nil {
				t.Errorf("%d rows have 5 ms, and one that passes takes 10; want a refusal", n)
			}
		}
	})
}
