package ort

import (
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// Stoppable returns how many runs a context may stop.
func (s *Session) Stoppable() int {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	return len(s.stoppable)
}

// Unpredictable reports whether the session has given up on the model's declared shapes.
func (s *Session) Unpredictable() bool { return s.unpredictable.Load() }

// PlaceAll has the session expect that outputs which are inputs are written, too.
func (s *Session) PlaceAll() {
	sig := s.signature.Clone()
	for i := range sig.Inputs {
		sig.Inputs[i].Name = ""
	}
	for i, out := range sig.Outputs {
		s.predictions[i] = predict(sig, out)
	}
}

// Gate keeps captures and others apart.
type Gate struct{ gate }

func (g *Gate) Enter()                    { g.enter() }
func (g *Gate) Leave()                    { g.leave() }
func (g *Gate) Shut(d time.Duration) bool { return g.shut(d) }
func (g *Gate) Open()                     { g.open() }

// Occupy is as a run in flight on a CUDA device, or a session being opened there, until leave is called.
func Occupy(opening bool) (leave func()) {
	g := &device.running
	if opening {
		g = &device.opening
	}
	g.enter()
	return g.leave
}

// Barred reports whether somebody keeps others from running on CUDA devices, or from opening a session there.
func Barred() bool {
	for _, g := range []*gate{&device.opening, &device.running} {
		g.mu.Lock()
		shut := g.opened != nil
		g.mu.Unlock()
		if shut {
			return true
		}
	}
	return false
}

// Seize holds the CUDA devices like a capture, until end is called. It waits for nobody.
func Seize(t *testing.T) (end func()) {
	t.Helper()
	if end = seize(time.Now()); end == nil {
		t.Fatal("the CUDA devices are another's")
	}
	return end
}

// FirstOf opens with the first of providers that can be had. Each ends as ends says; without an error it makes a
// session.
func FirstOf(providers []string, ends map[string]error) (provider string, notes []string, err error) {
	m, err := firstOf(providers, []string{CPU, CUDA, TensorRT},
		func(p string) (made, error) { return made{provider: p}, ends[p] })
	return m.provider, m.notes, err
}

// NoteLost looks whether an error says that a device is lost, and LostBy returns the error that said so. The test
// begins and ends with none.
func NoteLost(t *testing.T, device int, err error) {
	forgetLost(t)
	noteLost(device, err)
}

// AskDevice gives an error of a device the CUDA runtime's word if the device is lost.
var AskDevice = askDevice

func LostBy(device int) error { return lostBy(device) }

func forgetLost(t *testing.T) {
	forget := func() {
		lost.mu.Lock()
		defer lost.mu.Unlock()
		clear(lost.causes)
	}
	forget()
	t.Cleanup(forget)
}

// WithoutPauses lets sessions retry after a failure without a pause, until the test ends.
func WithoutPauses(t *testing.T) {
	reload, memory, rest := reloadPause, memoryPause, restAfter
	reloadPause, memoryPause, restAfter = 0, 0, 0
	t.Cleanup(func() { reloadPause, memoryPause, restAfter = reload, memory, rest })
}

// FollowRuns makes runs look at their sessions' memory as often as that, until the test ends.
func FollowRuns(t *testing.T, every time.Duration) {
	before := measureEvery
	measureEvery = every
	t.Cleanup(func() { measureEvery = before })
}

// CUDAOptions returns the options of the CUDA provider.
func (o *Options) CUDAOptions() map[string]string { return o.cuda() }

// UseCUDARuntime makes the package load another CUDA runtime until the test ends, on which no device is lost.
func UseCUDARuntime(t *testing.T, path string) {
	forgetLost(t)
	names, before := cudaRuntime.names, cudaRuntime.c
	cudaRuntime.names, cudaRuntime.c = []string{path}, nil
	t.Cleanup(func() { cudaRuntime.names, cudaRuntime.c = names, before })
}

// CaptureOnCPU makes sessions on the CPU do all that they do for CUDA graphs until the test ends; the runs themselves
// are ordinary ones.
func CaptureOnCPU(t *testing.T) {
	before := graphDevice
	graphDevice.provider, graphDevice.memory, graphDevice.kind = CPU, "Cpu", 0
	t.Cleanup(func() { graphDevice = before })
}

// DeviceMemory measures the session's part of its device's memory.
func (s *Session) DeviceMemory() (peak, reserved int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.native == nil {
		return 0, 0, engine.ErrClosed
	}
	return s.measure()
}

// KindOf returns the kind of an error of ONNX Runtime.
func KindOf(e *Error) engine.Kind { return e.kind() }

// UseCuDNN makes the package look for cuDNN under other names until the test ends.
func UseCuDNN(t *testing.T, names ...string) {
	before := cudnnNames
	cudnnNames = names
	t.Cleanup(func() { cudnnNames = before })
}

// NeedCuDNN makes CUDA compute other operators by cuDNN alone until the test ends.
func NeedCuDNN(t *testing.T, operators ...string) {
	before := cudnnOperators
	cudnnOperators = operators
	t.Cleanup(func() { cudnnOperators = before })
}

// CheckCuDNN looks for cuDNN if operators that CUDA computes, and not those left to the processor, need it.
func CheckCuDNN(onCUDA, onCPU []string) error {
	p := placement{cuda: map[string]int{}, left: map[string]int{}}
	for _, op := range onCUDA {
		p.cuda[op]++
	}
	for _, op := range onCPU {
		p.left[op]++
	}
	return checkCuDNN(p)
}

// GPUCode describes the code for GPUs in a library, and says whether a GPU of a compute capability runs it.
func GPUCode(library string, gpu int) (text string, runs bool, err error) {
	code, err := readGPUCode(library)
	return words(code), code.runsOn(capability(gpu)), err
}

// CheckGPUCode looks for code for a device in a library, as if that were the CUDA provider's.
func CheckGPUCode(library string, device int) error { return checkCode(library, device) }

// Typed returns an error of ONNX Runtime with its kind.
func Typed(e *Error) error { return e.typed() }

// Pin page-locks memory that the allocator did not give.
var Pin = (*pinner).pin

// NewPinner returns an allocator that page-locks memory for a device.
var NewPinner = newPinner
