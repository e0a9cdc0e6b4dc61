package ort

import "testing"

// Running reports whether a run holds the session.
func (s *Session) Running() bool {
	if s.mu.TryLock() {
		s.mu.Unlock()
		return false
	}
	return true
}

// Unpredictable reports whether the session has given up on the model's declared shapes.
func (s *Session) Unpredictable() bool { return s.unpredictable.Load() }

// Abandoned reports whether Close leaves ONNX Runtime's session as it is.
func (s *Session) Abandoned() bool { return s.abandoned.Load() }

// CUDAOptions returns the options of the CUDA provider.
func (o *Options) CUDAOptions() map[string]string { return o.cuda() }

// UseCUDARuntime has the package load another CUDA runtime until the test ends.
func UseCUDARuntime(t *testing.T, path string) {
	names, before := cudaRuntime.names, cudaRuntime.c
	cudaRuntime.names, cudaRuntime.c = []string{path}, nil
	t.Cleanup(func() { cudaRuntime.names, cudaRuntime.c = names, before })
}

// CaptureOnCPU has sessions on the CPU do all that they do for CUDA graphs until the test ends; the runs themselves are ordinary ones.
func CaptureOnCPU(t *testing.T) {
	before := graphDevice
	graphDevice.provider, graphDevice.memory = CPU, "Cpu"
	t.Cleanup(func() { graphDevice = before })
}

// NewPinner returns what page-locks memory for a device.
var NewPinner = newPinner
