package simgpu_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/ort/simgpu"
	"github.com/weftserve/weft/runtime/tensor"
)

const policy = "opset 17; x[N,6]; a = Gemm(x, <6,6>, <6>); b = Tanh(a); Gemm(b, <6,6>, <6>)"

// prove runs a session until batches of one row are answered by a graph.
func prove(t *testing.T, s, cpu *ort.Session, rng *rand.Rand) {
	t.Helper()
	for range 4 {
		agrees(t, policy, s, cpu, rows(rng, 1))
	}
	if g := s.Stats().Graphs; g.Replayed != 1 || g.Failures > 0 {
		t.Fatalf("after 4 runs: %+v", g)
	}
}

// A copy that is not waited for shows: a replay then gives what was there before.
func TestWithoutWaiting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	cpu, s := open(t, policy, onCPU), open(t, policy, graphs)
	defer closing(t, cpu)
	defer closing(t, s)
	prove(t, s, cpu, rng)

	in := rows(rng, 1)
	b := tensor.NewBatch(1, 1, nil)
	defer b.Free()
	copy(b.Input(0, in.DType, in.Shape, len(in.Data)), in.Data)
	gpu.IgnoreWaits(true)
	gpu.Delay(100 * time.Millisecond)
	err := s.Run(t.Context(), b)
	got := weftest.Values(b.Outputs[0])
	gpu.IgnoreWaits(false)
	gpu.Delay(0)
	want, _ := answer(t, cpu, in)
	if err != nil || got[0] == want[0] {
		t.Errorf("%v, %v, which is right", got, err)
	}
	agrees(t, policy, s, cpu, in) // waits for the stream, which still writes into b
}

// Device memory that is bound as the processor's is a fault at the first touch.
func TestWrongBinding(t *testing.T) {
	defer gpu.Misbind(false)
	is, output, err := inAProcess(t)
	if !is {
		end, ok := errors.AsType[*exec.ExitError](err)
		if !ok || end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSEGV {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	gpu.Misbind(true)
	s := open(t, policy, graphs)
	defer closing(t, s)
	for range 4 {
		_, err := answer(t, s, rows(rand.New(rand.NewPCG(1, 0)), 1))
		t.Logf("no fault, but %v", err)
	}
}

// A model that reads an input on the host has no graphs: a graph would read it once. It answers without.
func TestInputOnTheHost(t *testing.T) {
	s := open(t, "opset 17; x[N,6] shape:int64[2]; y = Expand(x, shape); Neg(y)", graphs)
	defer closing(t, s)
	notes := s.Notes()
	if len(notes) != 1 || !strings.Contains(notes[0], `input "shape" is in the host's memory; running without`) {
		t.Errorf("notes %q", notes)
	}
	b := tensor.NewBatch(2, 1, nil)
	defer b.Free()
	for n := range byte(6) {
		copy(b.Input(0, tensor.Float32, tensor.Shape{1, 6}, 24), weftest.Floats(nil, 1, 2, 3, 4, 5, 6).Data)
		copy(b.Input(1, tensor.Int64, tensor.Shape{2}, 16), []byte{n + 1, 0, 0, 0, 0, 0, 0, 0, 6})
		err := s.Run(t.Context(), b)
		want := slices.Repeat([]float32{-1, -2, -3, -4, -5, -6}, int(n)+1)
		if got := weftest.Values(b.Outputs[0]); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d rows: %v, %v", n+1, got, err)
		}
	}
}

// A lost device is one, wherever that shows: runs fail with that kind, in all sessions there; nothing is opened there
// any more; sessions are closed; the processor goes on. Another process has the device.
func TestLoss(t *testing.T) {
	for name, c := range map[string]struct {
		call   simgpu.Call
		code   int
		graphs bool
	}{
		"kernel":         {simgpu.Kernel, 700, false},
		"to_device":      {simgpu.ToDevice, 719, false},
		"to_host":        {simgpu.ToHost, 714, false},
		"wait":           {simgpu.Wait, 999, false},
		"allocate":       {simgpu.Allocate, 700, false},
		"capture":        {simgpu.Capture, 719, true},
		"replay":         {simgpu.Replay, 700, true},
		"kernel_of_many": {simgpu.Kernel, 700, true},
	} {
		t.Run(name, func(t *testing.T) {
			defer gpu.Mend()
			is, output, err := inAProcess(t)
			if !is {
				if err != nil {
					t.Errorf("%v\n%s", err, output)
				}
				return
			}
			o := onGPU
			if c.graphs {
				o = graphs
			}
			rng := rand.New(rand.NewPCG(1, 0))
			cpu, s, other := open(t, policy, onCPU), open(t, policy, o), open(t, policy, graphs)
			prove(t, other, cpu, rng)
			if c.graphs && c.call != simgpu.Capture {
				prove(t, s, cpu, rng)
			}
			gpu.Fail(c.call, 0, c.code)
			for n := 0; err == nil && n < 3; n++ { // a capture that fails is answered
				_, err = answer(t, s, rows(rng, 1))
			}
			if engine.KindOf(err) != engine.DeviceLost || !strings.Contains(err.Error(), strconv.Itoa(c.code)) {
				t.Errorf("a run: %v", err)
			}
			for _, s := range []*ort.Session{s, other} {
				if _, err := answer(t, s, rows(rng, 1)); engine.KindOf(err) != engine.DeviceLost {
					t.Errorf("a later run: %v", err)
				}
			}
			if _, err := ort.Open(write(t, policy), onGPU); engine.KindOf(err) != engine.DeviceLost {
				t.Errorf("opened after the loss: %v", err)
			}
			closing(t, s)
			closing(t, other)
			agrees(t, policy, cpu, cpu, rows(rng, 3))
			closing(t, cpu)
		})
	}
	if os.Getenv(alone) == "" {
		cpu, s := open(t, policy, onCPU), open(t, policy, graphs)
		prove(t, s, cpu, rand.New(rand.NewPCG(1, 0)))
		closing(t, cpu)
		closing(t, s)
	}
}

// A run without memory fails with that kind, and the session goes on. A graph without memory is none.
func TestOutOfMemory(t *testing.T) {
	defer gpu.Mend()
	rng := rand.New(rand.NewPCG(1, 0))
	limited := onGPU
	limited.DeviceMemory = 64 << 10
	cpu, eager, bounded, replaying := open(t, policy, onCPU), open(t, policy, onGPU), open(t, policy, limited),
		open(t, policy, graphs)
	for range 2 {
		gpu.Fail(simgpu.Allocate, 0, 2)
		if _, err := answer(t, eager, rows(rng, 5)); engine.KindOf(err) != engine.OutOfMemory {
			t.Errorf("the device is full: %v", err)
		}
		if _, err := answer(t, bounded, rows(rng, 10_000)); engine.KindOf(err) != engine.OutOfMemory {
			t.Errorf("the limit is reached: %v", err)
		}
		agrees(t, policy, bounded, cpu, rows(rng, 10))
	}
	agrees(t, policy, eager, cpu, rows(rng, 5))
	if held := bounded.Stats().Memory.Held; held <= 0 || held > limited.DeviceMemory {
		t.Errorf("the arena holds %d bytes of %d", held, limited.DeviceMemory)
	}

	agrees(t, policy, replaying, cpu, rows(rng, 1))
	gpu.Fail(simgpu.Allocate, 1, 2) // ONNX Runtime has laid out the next run, and takes one block for it
	for range 4 {
		agrees(t, policy, replaying, cpu, rows(rng, 1))
	}
	if g := replaying.Stats().Graphs; g.Replayed != 0 || g.Failures != 0 {
		t.Errorf("no memory for a graph: %+v", g)
	}
	for _, s := range []*ort.Session{cpu, eager, bounded, replaying} {
		closing(t, s)
	}
}

// Others keep out of a capture's way, which any call that allocates or waits would spoil: a run, the opening of a
// session, and its end.
func TestCaptureNextToOthers(t *testing.T) {
	defer gpu.Delay(0)
	rng := rand.New(rand.NewPCG(1, 0))
	path, in := write(t, policy), rows(rng, 2)
	cpu, other, ending := open(t, policy, onCPU), open(t, policy, onGPU), open(t, policy, onGPU)
	defer closing(t, cpu)
	defer closing(t, other)
	agrees(t, policy, ending, cpu, in)
	for name, intrude := range map[string]func() error{
		"run": func() error {
			_, err := answer(t, other, in)
			return err
		},
		"open": func() error {
			s, err := ort.Open(path, onGPU)
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"close": ending.Close,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, policy, graphs)
			defer closing(t, s)
			agrees(t, policy, s, cpu, in)
			gpu.Delay(5 * time.Millisecond)
			defer gpu.Delay(0)
			captures := gpu.Made(simgpu.Capture)
			var intruder sync.WaitGroup
			intruder.Go(func() {
				for gpu.Made(simgpu.Capture) == captures {
					runtime.Gosched()
				}
				if err := intrude(); err != nil {
					t.Error(err)
				}
			})
			for gpu.Made(simgpu.Capture) == captures {
				agrees(t, policy, s, cpu, in)
			}
			intruder.Wait()
			if g := s.Stats().Graphs; g.Failures > 0 {
				t.Errorf("%+v", g)
			}
		})
	}
}
