package ort_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// neg is a model that answers the negative of its rows of two.
func neg() []byte {
	g := onnxgraph.New("neg").Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2)
	return g.Node("Neg", []string{"x"}, []string{"y"}).Marshal()
}

// openGraphs opens a model that captures graphs on the CPU, where a capture is a run like others. It returns the log,
// too.
func openGraphs(t *testing.T, model []byte) (*ort.Session, *bytes.Buffer) {
	t.Helper()
	ort.CaptureOnCPU(t)
	log := new(bytes.Buffer)
	o := ort.Options{CUDAGraphs: true, Log: slog.New(slog.NewTextHandler(log, nil))}
	return openWith(t, weftest.WriteFile(t, t.TempDir(), "model.onnx", model), o), log
}

// negate runs the model on rows of two and fails unless it answers their negative.
func negate(t *testing.T, s *ort.Session, values ...float32) {
	t.Helper()
	var want []float32
	for _, v := range values {
		want = append(want, -v)
	}
	out := runOnce(t, s, floats(tensor.Shape{int64(len(values) / 2), 2}, values...))
	same(t, want, weftest.Values(out[0]))
}

func counts(t *testing.T, s *ort.Session, replayed, eager, failed uint64) {
	t.Helper()
	want := engine.Graphs{Known: true, Replayed: replayed, Eager: eager, Failures: failed}
	if got := s.Stats().Graphs; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestGraphLife(t *testing.T) {
	log := useFakeCUDA(t)
	s, _ := openGraphs(t, neg())
	if notes := s.Notes(); len(notes) != 0 {
		t.Fatalf("notes %q", notes)
	}
	negate(t, s, 1, 2)
	if n := log.count(t, "cudaMalloc"); n != 0 {
		t.Errorf("%d allocations for a shape that came once", n)
	}
	negate(t, s, 3, 4) // captures
	if n := log.count(t, "cudaMalloc"); n != 2 {
		t.Errorf("%d allocations for one input and one output", n)
	}
	negate(t, s, 3, 4) // nothing new: proves nothing
	negate(t, s, 5, 6) // proves
	counts(t, s, 0, 4, 0)
	before := log.count(t, "to device")
	for i := range 5 {
		negate(t, s, float32(i), 7)
	}
	counts(t, s, 5, 4, 0)
	if n := log.count(t, "to device") - before; n != 5 {
		t.Errorf("%d copies to the device for 5 replays", n)
	}
	negate(t, s, 1, 2, 3, 4) // another shape
	counts(t, s, 5, 5, 0)
	if n := log.count(t, "cudaMalloc"); n != 2 {
		t.Errorf("%d allocations: device memory moved, or was made for a new shape", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"cudaFree", "cudaStreamDestroy"} {
		if made, freed := map[string]int{"cudaFree": 2, "cudaStreamDestroy": 1}[call],
			log.count(t, call); made != freed {
			t.Errorf("%s: %d calls, want %d", call, freed, made)
		}
	}
}

// A graph that goes on with the inputs of its capture is found out before it answers anybody.
func TestGraphThatIsStale(t *testing.T) {
	useFakeCUDA(t)
	t.Setenv("FAKE_CUDA_STALE", "1")
	s, log := openGraphs(t, neg())
	for i := range 6 {
		negate(t, s, float32(i), 1)
	}
	counts(t, s, 0, 6, 1)
	if !strings.Contains(log.String(), "event=graph_refused") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log %q, want one line", log)
	}
}

func TestGraphWithoutMemory(t *testing.T) {
	calls := useFakeCUDA(t)
	t.Setenv("FAKE_CUDA_FAIL", "cudaMalloc=2")
	s, log := openGraphs(t, neg())
	for i := range 4 {
		negate(t, s, float32(i), 1)
	}
	counts(t, s, 0, 4, 0) // it may have its graph yet
	if n := calls.count(t, "cudaMalloc"); n != 1 {
		t.Errorf("tried %d times in a moment, want once", n)
	}
	if text := log.String(); !strings.Contains(text, "CUDA error 2: out of memory (cudaMalloc)") ||
		!strings.Contains(text, "event=graph_postponed") || !strings.Contains(text, "next_try_after=1m0s") {
		t.Errorf("log %q", text)
	}
}

// A capture that fails has its session loaded again, without graphs; the batch was answered already.
func TestGraphWhoseCaptureFails(t *testing.T) {
	log := useFakeCUDA(t)
	s, text := openGraphs(t, neg())
	negate(t, s, 1, 2)
	t.Setenv("FAKE_CUDA_FAIL", "to device=900")
	negate(t, s, 3, 4)
	counts(t, s, 0, 2, 1)
	for range 3 {
		negate(t, s, 5, 6)
	}
	counts(t, s, 0, 5, 1)
	if !strings.Contains(text.String(), "event=graphs_disabled") || strings.Count(text.String(), "\n") != 1 {
		t.Errorf("log %q, want one line", text)
	}
	if n := log.count(t, "cudaFree"); n != 2 {
		t.Errorf("%d pieces of memory freed, want 2", n)
	}
}

// leftBehind reports whether a native session was left as it is, because its graphs are on a lost device.
func leftBehind(log *bytes.Buffer) bool {
	return strings.Contains(log.String(), "event=session_leaked")
}

// A replay that fails is answered without the graph; one on a lost device is not.
func TestGraphWhoseReplayFails(t *testing.T) {
	for code, lost := range map[string]bool{"900": false, "719": true} {
		t.Run(code, func(t *testing.T) {
			useFakeCUDA(t)
			s, log := openGraphs(t, neg())
			negate(t, s, 1, 2)
			negate(t, s, 3, 4)
			negate(t, s, 5, 6)
			negate(t, s, 7, 8)
			counts(t, s, 1, 3, 0)
			t.Setenv("FAKE_CUDA_FAIL", "to device="+code)
			if !lost {
				negate(t, s, 9, 10)
				counts(t, s, 1, 4, 1)
				if leftBehind(log) {
					t.Error("a session on a sound device was left behind")
				}
				return
			}
			err := s.Run(t.Context(), batchOf(t, s, floats(tensor.Shape{1, 2}, 9, 10)))
			if engine.KindOf(err) != engine.DeviceLost {
				t.Errorf("got %v, want a lost device", err)
			}
			if err := s.Close(); err != nil || !leftBehind(log) {
				t.Errorf("Close: %v; left as it is: %t", err, leftBehind(log))
			}
		})
	}
}

func TestGraphsWithoutRuntime(t *testing.T) {
	ort.UseCUDARuntime(t, "/nowhere/libcudart.so")
	s, _ := openGraphs(t, neg())
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "cuda_graphs asked for but not possible") ||
		!strings.Contains(notes[0], "/nowhere/libcudart.so") {
		t.Errorf("notes %q", notes)
	}
	for i := range 4 {
		negate(t, s, float32(i), 1)
	}
	counts(t, s, 0, 4, 1)
}

// Many callers share the one thread; Close comes among them.
func TestGraphsAmongCallers(t *testing.T) {
	useFakeCUDA(t)
	s, _ := openGraphs(t, neg())
	for i := range 4 {
		negate(t, s, float32(i), 1)
	}
	var running, ended sync.WaitGroup
	for i := range 4 {
		b := batchOf(t, s, floats(tensor.Shape{1, 2}, float32(i), 1))
		running.Add(1)
		ended.Go(func() {
			err := s.Run(t.Context(), b)
			if got := weftest.Values(b.Outputs[0]); err != nil || got[0] != -float32(i) {
				t.Errorf("caller %d: %v, %v", i, got, err)
			}
			running.Done()
			for !errors.Is(err, engine.ErrClosed) {
				if err = s.Run(t.Context(), b); err != nil && !errors.Is(err, engine.ErrClosed) {
					if engine.KindOf(err) != engine.Terminated {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	running.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ended.Wait()
}

// A shape that the device had no memory for is captured when it has; one line reports the failures.
func TestGraphMemoryComesBack(t *testing.T) {
	log := useFakeCUDA(t)
	ort.WithoutPauses(t)
	t.Setenv("FAKE_CUDA_FAIL", "cudaMalloc=2")
	s, text := openGraphs(t, neg())
	for i := range 4 {
		negate(t, s, float32(i), 1)
	}
	if n := log.count(t, "cudaMalloc"); n != 3 {
		t.Errorf("tried %d times in four runs, want 3", n)
	}
	t.Setenv("FAKE_CUDA_FAIL", "")
	for i := range 4 {
		negate(t, s, float32(i), 2)
	}
	counts(t, s, 2, 6, 0)
	if strings.Count(text.String(), "\n") != 1 {
		t.Errorf("log %q, want one line", text)
	}
}

// A shape that had to wait for memory and is refused afterwards is counted then, and reported.
func TestGraphRefusedAfterMemoryCameBack(t *testing.T) {
	useFakeCUDA(t)
	ort.WithoutPauses(t)
	t.Setenv("FAKE_CUDA_FAIL", "cudaMalloc=2")
	s, text := openGraphs(t, neg())
	for i := range 3 {
		negate(t, s, float32(i), 1)
	}
	counts(t, s, 0, 3, 0)
	t.Setenv("FAKE_CUDA_FAIL", "")
	t.Setenv("FAKE_CUDA_STALE", "1")
	for i := range 3 {
		negate(t, s, float32(i), 2)
	}
	counts(t, s, 0, 6, 1)
	if !strings.Contains(text.String(), "event=graph_refused") {
		t.Errorf("log %q", text)
	}
}

// A capture gives up soon where others are on the device or being opened, and comes about when they are gone.
func TestCaptureGivesWay(t *testing.T) {
	for name, opening := range map[string]bool{"run": false, "opening": true} {
		t.Run(name, func(t *testing.T) {
			log := useFakeCUDA(t)
			s, _ := openGraphs(t, neg())
			leave := ort.Occupy(opening)
			for i := range 10 {
				negate(t, s, float32(i), 1)
			}
			if n := log.count(t, "cudaMalloc"); n != 0 {
				t.Errorf("captured beside others")
			}
			leave()
			for i := 0; log.count(t, "cudaMalloc") == 0; i++ { // it waits a little before it tries again
				negate(t, s, float32(i), 2)
			}
			negate(t, s, 1, 3)
			negate(t, s, 2, 3)
			if got := s.Stats().Graphs; got.Replayed != 1 || got.Failures != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A graph's part of the device's memory is counted for as long as it is there.
func TestGraphMemoryIsHeld(t *testing.T) {
	useFakeCUDA(t)
	ort.FollowRuns(t, 0)
	s, _ := openGraphs(t, neg())
	negate(t, s, 1, 2)
	without := s.Stats().Memory.Held
	if _, held, err := s.DeviceMemory(); err != nil || held != without {
		t.Errorf("%d bytes held, %d when asked (%v)", without, held, err)
	}
	negate(t, s, 3, 4)    // captures
	const one = 2 * 2 * 4 // an input and an output of two numbers
	if got := s.Stats().Memory.Held - without; got != one {
		t.Errorf("a graph holds %d bytes more, want %d", got, one)
	}
	negate(t, s, 1, 2, 3, 4)
	negate(t, s, 1, 2, 3, 4)
	if got := s.Stats().Memory.Held - without; got != one+2*one {
		t.Errorf("two graphs hold %d bytes more, want %d", got, one+2*one)
	}
	t.Setenv("FAKE_CUDA_FAIL", "to device=900")
	negate(t, s, 5, 6) // its proof fails, and all graphs go
	negate(t, s, 5, 6)
	if got := s.Stats().Memory.Held - without; got != 0 {
		t.Errorf("without graphs %d bytes more are held", got)
	}
}
