package ort_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestNoteLost(t *testing.T) {
	for text, want := range map[string]bool{
		"Error creating C session from file: CUDA failure 719: unspecified launch failure ; GPU=1 ; hostname=h": true,
		"CUDA failure 2: out of memory ; GPU=1":                                      false,
		"Load model from /m/model.onnx failed: File doesn't exist":                   false,
		"CUDA error 700: an illegal memory access was encountered (cudaMemcpyAsync)": true,
	} {
		ort.NoteLost(t, 1, errors.New(text))
		if got := ort.LostBy(1) != nil; got != want || ort.LostBy(0) != nil {
			t.Errorf("%q: device 1 lost: %t, want %t; device 0: %v", text, got, want, ort.LostBy(0))
		}
	}
	ort.NoteLost(t, 0, nil)
	if ort.LostBy(0) != nil {
		t.Error("lost by no error")
	}
	ort.LoseDevice(0, errors.New("the driver says so"))
	ort.LoseDevice(0, errors.New("and again"))
	if cause := ort.LostBy(0); cause == nil || cause.Error() != "the driver says so" || ort.LostBy(1) != nil {
		t.Errorf("device 0 is lost by %v, device 1 by %v", cause, ort.LostBy(1))
	}
}

// A model on the processor has no device to lose, whatever it calls its nodes.
func TestTextsOnTheProcessor(t *testing.T) {
	const text = "CUDA failure 700"
	g := onnxgraph.New("named").Input("i", onnxgraph.Int64, "n").Output("y", onnxgraph.Float, "n")
	g.InitFloats("table", []int64{3}, 10, 20, 30).Node("GatherElements", []string{"table", "i"}, []string{"y"})
	s := openGraph(t, bytes.Replace(g.Marshal(), []byte("GatherElements_0"), []byte(text), 1))
	err := s.Run(t.Context(), batchOf(t, s, int64s(tensor.Shape{1}, 9)))
	if engine.KindOf(err) != engine.ModelFailed || !strings.Contains(err.Error(), text) || ort.LostBy(0) != nil {
		t.Errorf("%v, of kind %d; lost by %v", err, engine.KindOf(err), ort.LostBy(0))
	}
}

// proveGraph runs a session until its graph is proven.
func proveGraph(t *testing.T, s *ort.Session) {
	t.Helper()
	for i := range 4 {
		negate(t, s, float32(i), 1)
	}
	counts(t, s, 1, 3, 0)
}

// A loss that one session learns of is heeded by all that have captured graphs on that device.
func TestLossSeenByAnother(t *testing.T) {
	useFakeCUDA(t)
	with, log := openGraphs(t, neg())
	proveGraph(t, with)
	without, quiet := openGraphs(t, neg())
	negate(t, without, 1, 2)
	ort.NoteLost(t, 0, errors.New("CUDA failure 700: an illegal memory access was encountered ; GPU=0"))
	for s, want := range map[*ort.Session]bool{with: true, without: false} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		of := map[bool]string{true: log.String(), false: quiet.String()}[want]
		if got := strings.Contains(of, "event=session_leaked"); got != want {
			t.Errorf("left in memory: %t, want %t", got, want)
		}
	}
}

// A device that is lost during a capture, in a proof, or while the memory of a graph is given back is found out before
// the native session is destroyed.
func TestLossInTheLifeOfAGraph(t *testing.T) {
	for name, c := range map[string]struct {
		before int // runs until the device is lost
		fail   string
		runs   int // that are answered then
	}{
		"capture":           {1, "to device=719", 1},
		"proof":             {2, "cudaStreamSynchronize=719", 1},
		"close":             {4, "cudaFree=719", 0},
		"capture elsewhere": {4, "cudaFree=900", 0}, // which is no less a reason
	} {
		t.Run(name, func(t *testing.T) {
			useFakeCUDA(t)
			s, log := openGraphs(t, neg())
			for i := range c.before {
				negate(t, s, float32(i), 1)
			}
			t.Setenv("FAKE_CUDA_FAIL", c.fail)
			for i := range c.runs {
				negate(t, s, float32(i), 2) // answered without the graph
			}
			if c.runs > 0 {
				err := s.Run(t.Context(), batchOf(t, s, floats(tensor.Shape{1, 2}, 5, 6)))
				if engine.KindOf(err) != engine.DeviceLost || !strings.Contains(err.Error(), "719") {
					t.Errorf("got %v, want a lost device", err)
				}
			}
			if err := s.Close(); err != nil || !leftBehind(log) {
				t.Errorf("Close: %v; log %q", err, log)
			}
		})
	}
}

// A model that cannot be loaded again, for a reason that may pass, fails its runs until it can; its device is not to
// blame.
func TestReloadThatFails(t *testing.T) {
	useFakeCUDA(t)
	ort.CaptureOnCPU(t)
	initialise(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	write := func() {
		if err := os.WriteFile(path, neg(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	s, err := ort.Open(path, ort.Options{CUDAGraphs: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	negate(t, s, 1, 2)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_CUDA_FAIL", "to device=900")
	negate(t, s, 3, 4) // its capture fails, and then the reload
	fails := func() {
		t.Helper()
		err := s.Run(t.Context(), batchOf(t, s, floats(tensor.Shape{1, 2}, 5, 6)))
		contains(t, err, path, "again without CUDA graphs")
		if engine.KindOf(err) == engine.DeviceLost {
			t.Errorf("the device is blamed: %v", err)
		}
	}
	fails()
	write()
	fails() // not tried again so soon
	ort.WithoutPauses(t)
	negate(t, s, 5, 6)
	counts(t, s, 0, 3, 1)
}
