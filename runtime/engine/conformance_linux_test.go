package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/ort/simgpu"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// kindOfModel is a model that each engine has: x [?, 4] → y [?, 4], both fp32.
type kindOfModel string

const (
	quick kindOfModel = "quick" // fails on a row with NaN
	slow  kindOfModel = "slow"  // takes far longer than a test waits
)

// asked says what an engine opens. It is what a worker is asked for.
type asked struct {
	Model     kindOfModel
	Synth     bool
	Path      string // of an ONNX model
	Providers []string
}

func (a asked) open() (engine.Opened, error) {
	if a.Synth {
		o := synth.Options{FailOnNaN: true}
		if a.Model == slow {
			o.Base = time.Hour
		}
		s, err := synth.Open(o)
		return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider()}, err
	}
	s, err := ort.Open(a.Path, ort.Options{Providers: a.Providers})
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider(), Notes: s.Notes()}, nil
}

// The test binary is its own worker.
const serves = "serve-as-a-worker"

type engines struct{}

func (engines) Load() error { return ort.Init(os.Args[2]) }

func (engines) Open(_ context.Context, encoded json.RawMessage, _ *os.File, _ *slog.Logger) (engine.Opened, error) {
	var a asked
	if err := json.Unmarshal(encoded, &a); err != nil {
		return engine.Opened{}, err
	}
	return a.open()
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serves {
		if err := worker.Serve(engines{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// subject is an engine.
type subject struct {
	asked
	inWorker bool
	pool     *worker.Pool
}

// open opens a model, which the end of the test closes.
func (s *subject) open(t *testing.T, of kindOfModel) engine.Opened {
	t.Helper()
	a := s.asked
	a.Model = of
	if !a.Synth {
		text := "x[N,4]; Sub(Gather(f[0.0,0.0], Cast{to=7}(Mul(x, 0.0))), x)" // the place of NaN is out of range
		if of == slow {
			text = "x[N,4]; a0 = Expand(ReduceMax(x), [512,512]); " + strings.Join(chain(400), "") +
				"Add(x, ReduceMax(a400))"
		}
		model, err := sketch.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		a.Path = weftest.WriteFile(t, t.TempDir(), "model.onnx", model.Graph.Marshal())
	}
	var o engine.Opened
	var err error
	if s.inWorker {
		o, err = s.pool.Open(t.Context(), worker.Place{Device: "cpu"}, a, nil, nil)
	} else {
		o, err = a.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Session.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// chain is products of matrices, one after the other, which the simulated GPU leaves to the processor.
func chain(n int) (products []string) {
	for i := range n {
		products = append(products, fmt.Sprintf("a%d = Einsum{equation=\"ij,jk->ik\"}(a%d, a0); ", i+1, i))
	}
	return products
}

// answer is y of rows.
func (s *subject) answer(t *testing.T, x tensor.Tensor) []float32 {
	t.Helper()
	if !s.Synth {
		y := weftest.Values(x)
		for i := range y {
			y[i] = -y[i]
		}
		return y
	}
	model, err := synth.Open(synth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	y, err := model.Answer(x)
	if err != nil {
		t.Fatal(err)
	}
	return weftest.Values(y[0])
}

// rowsFrom makes so many rows of numbers that ascend.
func rowsFrom(first float32, n int64) tensor.Tensor {
	values := make([]float32, 4*n)
	for i := range values {
		values[i] = first + float32(i)
	}
	return weftest.Floats(tensor.Shape{n, 4}, values...)
}

// run runs a batch of one input. What it panics with, as for lack of memory, is its error.
func run(ctx context.Context, o engine.Opened, b *tensor.Batch, inputs ...tensor.Tensor) (err error) {
	defer func() {
		if failed, is := recover().(error); is {
			err = failed
		}
	}()
	b.Feed(len(inputs))
	for i, in := range inputs {
		copy(b.Input(i, in.DType, in.Shape, len(in.Data)), in.Data)
	}
	return o.Session.Run(ctx, b)
}

func newBatch(t *testing.T, o engine.Opened) *tensor.Batch {
	b := tensor.NewBatch(2, 1, o.Memory)
	t.Cleanup(b.Free)
	return b
}

// gpuVariable is set in a process that has a simulated GPU: a process loads one library.
const gpuVariable = "WEFT_TEST_CONFORMANCE_GPU"

// TestConformance: each engine keeps the promises of a Session, by itself and in a process of its own.
func TestConformance(t *testing.T) {
	library := os.Getenv(gpuVariable)
	subjects := map[string]*subject{"cuda": {asked: asked{Providers: []string{ort.CUDA}}}}
	if library == "" {
		subjects = map[string]*subject{"synth": {asked: asked{Synth: true}}, "onnx": {}}
		var err error
		if library, err = ortlib.Find(); err != nil {
			t.Fatal(err)
		}
		if os.Getenv("WEFT_TEST_CUDA") == "1" {
			subjects["cuda"] = &subject{asked: asked{Providers: []string{ort.CUDA}}}
		}
	}
	if err := ort.Init(library); err != nil {
		t.Fatal(err)
	}
	log := &weftest.Log{}
	pool := worker.NewPool(worker.Config{
		Command: serves, Library: func() (string, error) { return library, nil }, Log: slog.New(log),
	})
	t.Cleanup(pool.Close)
	for name, s := range subjects {
		inWorker := *s
		inWorker.inWorker, inWorker.pool = true, pool
		for where, s := range map[string]*subject{name: s, name + " in a worker": &inWorker} {
			for promise, keeps := range promises {
				t.Run(where+"/"+promise, func(t *testing.T) { keeps(t, s) })
			}
		}
	}
	for _, died := range log.Event("worker_died") {
		if cause := weftest.Attr(died, "cause").String(); cause != "a run did not stop when it was told to" {
			t.Errorf("a process died: %s", cause)
		}
	}
}

func TestConformanceOnASimulatedGPU(t *testing.T) {
	gpu, err := simgpu.New(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConformance$", "-test.v")
	cmd.Env = append(os.Environ(), gpuVariable+"="+gpu.Library, ortlib.EnvVar+"="+gpu.Library)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "cuda_in_a_worker/sizes") {
		t.Errorf("%v\n%s", err, out)
	}
}

var promises = map[string]func(t *testing.T, s *subject){
	"description": func(t *testing.T, s *subject) {
		o := s.open(t, quick)
		sig := o.Session.Signature()
		for of, specs := range map[string][]tensor.Spec{"x": sig.Inputs, "": sig.Outputs} {
			if len(specs) != 1 || of != "" && specs[0].Name != of || specs[0].DType != tensor.Float32 ||
				!slices.Equal(specs[0].Shape, tensor.Shape{tensor.Unknown, 4}) || specs[0].BatchDim != tensor.NoBatch {
				t.Errorf("%+v", specs)
			}
		}
		want := map[bool]string{true: "synth", false: "cpu"}[s.Synth]
		if len(s.Providers) > 0 {
			want = s.Providers[0]
		}
		if o.Provider != want || o.Device != "cpu" {
			t.Errorf("provider %q on %q, want %q", o.Provider, o.Device, want)
		}
	},
	// A batch is used again for runs of other sizes, larger and smaller, with rows and without.
	"sizes": func(t *testing.T, s *subject) {
		o := s.open(t, quick)
		b := newBatch(t, o)
		sizes := []int64{1, 5, 2, 4000, 3}
		if len(s.Providers) == 0 { // the simulated GPU has no memory of no bytes
			sizes = append(sizes, 0, 1)
		}
		for _, rows := range sizes {
			x := rowsFrom(float32(rows), rows)
			if err := run(t.Context(), o, b, x); err != nil {
				t.Fatalf("%d rows: %v", rows, err)
			}
			y := b.Outputs[0]
			if err := y.Check(); err != nil || !slices.Equal(y.Shape, x.Shape) ||
				!slices.Equal(weftest.Values(y), s.answer(t, x)) {
				t.Errorf("%d rows: %v %v", rows, y.Shape, err)
			}
		}
	},
	"runs side by side": func(t *testing.T, s *subject) {
		o := s.open(t, quick)
		var callers sync.WaitGroup
		for c := range 4 {
			b, rows := newBatch(t, o), make([]tensor.Tensor, 50)
			answers := make([][]float32, len(rows))
			for i := range rows {
				rows[i] = rowsFrom(float32(1000*c+10*i), int64(1+i%3))
				answers[i] = s.answer(t, rows[i])
			}
			callers.Go(func() {
				for i, x := range rows {
					if err := run(t.Context(), o, b, x); err != nil ||
						!slices.Equal(weftest.Values(b.Outputs[0]), answers[i]) {
						t.Errorf("caller %d: %v, %v", c, b.Outputs[0], err)
						return
					}
				}
			})
		}
		callers.Wait()
		stats := o.Session.Stats()
		if g := stats.Graphs; g.Known && g.Replayed+g.Eager != 200 || !g.Known && g != (engine.Graphs{}) {
			t.Errorf("of 200 runs: %+v", g)
		}
		if m := stats.Memory; m.Known == s.Synth || m.Known && (m.Held <= 0 || m.Peak <= 0) {
			t.Errorf("memory of the device: %+v", m)
		}
	},
	// An input that does not fit the signature, or its own shape, fails its run with words.
	"wrong inputs": func(t *testing.T, s *subject) {
		o := s.open(t, quick)
		const fits = `input "x": expected fp32 [?,4]`
		fit := rowsFrom(1, 1)
		for name, c := range map[string]struct {
			inputs []tensor.Tensor
			want   string
		}{
			"type":     {[]tensor.Tensor{{DType: tensor.Int32, Shape: fit.Shape, Data: fit.Data}}, fits},
			"rank":     {[]tensor.Tensor{weftest.Floats(tensor.Shape{4}, 1, 2, 3, 4)}, fits},
			"size":     {[]tensor.Tensor{weftest.Floats(tensor.Shape{1, 3}, 1, 2, 3)}, fits},
			"bytes":    {[]tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1000, 4}, Data: fit.Data}}, `input "x"`},
			"negative": {[]tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{-1, 4}}}, `input "x"`},
			"number": {
				[]tensor.Tensor{fit, fit},
				map[bool]string{false: "2 inputs", true: "more tensors or dimensions than a lane's page holds"}[s.inWorker],
			},
		} {
			err := run(t.Context(), o, newBatch(t, o), c.inputs...)
			if err == nil || engine.KindOf(err) != engine.ModelFailed || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "ONNX Runtime") { // which trusts its caller
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	},
	// A failure is about this run's input: others, before and after, go well.
	"failure": func(t *testing.T, s *subject) {
		o := s.open(t, quick)
		b := newBatch(t, o)
		for range 2 {
			bad := weftest.Floats(tensor.Shape{1, 4}, 1, float32(math.NaN()), 3, 4)
			if err := run(t.Context(), o, b, bad); err == nil || engine.KindOf(err) != engine.ModelFailed {
				t.Errorf("of NaN: %v", err)
			}
			if err := run(t.Context(), o, b, rowsFrom(7, 2)); err != nil ||
				!slices.Equal(weftest.Values(b.Outputs[0]), s.answer(t, rowsFrom(7, 2))) {
				t.Errorf("afterwards: %v, %v", b.Outputs[0], err)
			}
		}
	},
	"too large an answer": func(t *testing.T, s *subject) {
		o := s.open(t, quick)
		b := newBatch(t, o)
		b.Most = 64
		for rows, want := range map[int64]bool{4: true, 5: false} {
			err := run(t.Context(), o, b, rowsFrom(1, rows))
			large, is := errors.AsType[*tensor.TooLargeError](err)
			if (err == nil) != want || !want && (engine.KindOf(err) != engine.AnswerTooLarge || is && large.Bytes != 80) {
				t.Errorf("%d rows of 64 bytes: %v", rows, err)
			}
		}
	},
	// The end of its context stops a run, and keeps one from being begun, which blames nobody.
	"deadline": func(t *testing.T, s *subject) {
		o := s.open(t, slow)
		b := newBatch(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		for again := range 2 {
			if err := run(ctx, o, b, rowsFrom(1, 1)); err == nil || engine.KindOf(err) != engine.Terminated ||
				again > 0 && !s.inWorker && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("once its context ended: %v", err)
			}
		}
	},
	"patience": func(t *testing.T, s *subject) {
		o := s.open(t, slow)
		b := newBatch(t, o)
		b.Patience = 30 * time.Millisecond
		if err := run(t.Context(), o, b, rowsFrom(1, 1)); err == nil || engine.KindOf(err) != engine.Crashed ||
			!strings.Contains(err.Error(), "the run did not end within 30ms") {
			t.Errorf("longer than its patience: %v", err)
		}
	},
	// An engine in this process stops its runs when it is closed, with and without a context that can end.
	"close": func(t *testing.T, s *subject) {
		if s.inWorker {
			return // its caller has waited for the runs
		}
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			o := s.open(t, slow)
			ended := make(chan error, 2)
			for range cap(ended) { // one has the device, one may wait for it
				b := newBatch(t, o)
				go func() { ended <- run(ctx, o, b, rowsFrom(1, 1)) }()
			}
			<-time.After(30 * time.Millisecond) // a run that has not begun finds the session closed
			if err := o.Session.Close(); err != nil {
				t.Error(err)
			}
			for range cap(ended) {
				if err := <-ended; err == nil || engine.KindOf(err) != engine.Terminated {
					t.Errorf("during Close: %v", err)
				}
			}
			for range 10 {
				if err := run(ctx, o, newBatch(t, o), rowsFrom(1, 1)); !errors.Is(err, engine.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			}
		}
	},
}
