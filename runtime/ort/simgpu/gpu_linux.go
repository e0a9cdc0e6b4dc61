package simgpu

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a call of the device that is counted, and can be made to fail.
type Call int

// The calls, in the order of testdata/device.h.
const (
	Kernel Call = iota
	ToDevice
	ToHost
	Allocate
	Release
	Wait
	Capture
	Replay
	calls
)

// control is struct control of testdata/device.h.
type control struct {
	size, delay, unwaited, misbound, failCall, failAfter, failCode, reserved atomic.Int64

	made [calls]atomic.Int64
}

// GPU is the simulated GPU of each process that loads its library. Its settings and counts are those of all.
type GPU struct {
	// Library is the file that stands for ONNX Runtime's.
	Library string
	*control
}

// controlFile lies next to the library, which maps it as well.
const controlFile = "control"

// Open returns the GPU whose library that is.
func Open(library string) (*GPU, error) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(library), controlFile), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := int(unsafe.Sizeof(control{}))
	page, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &GPU{Library: library, control: (*control)(unsafe.Pointer(unsafe.SliceData(page)))}, nil
}

// Fail makes a call fail with a cudaError_t, after so many more of its kind. If the error is one after which a process
// can use a GPU no more, all later calls of that process fail with it. A kernel fails when it is run, so that the error
// shows in a later call.
func (g *GPU) Fail(c Call, after, code int) {
	g.failCall.Store(int64(c))
	g.failCode.Store(int64(code))
	g.failAfter.Store(int64(after))
}

// Mend lets no further call fail. A process that has lost the device does not get it back.
func (g *GPU) Mend() { g.failAfter.Store(-1) }

// Delay is how long each kernel and copy waits before it is done, and a capture ten times as long before it ends.
func (g *GPU) Delay(d time.Duration) { g.delay.Store(int64(d)) }

// IgnoreWaits makes cudaStreamSynchronize return at once: Weft then reads answers before they are there.
func (g *GPU) IgnoreWaits(ignore bool) { set(&g.unwaited, ignore) }

// Misbind has ONNX Runtime take the device memory that Weft binds for the processor's.
func (g *GPU) Misbind(wrong bool) { set(&g.misbound, wrong) }

func set(flag *atomic.Int64, to bool) {
	var n int64
	if to {
		n = 1
	}
	flag.Store(n)
}

// Made returns how often a call was made and did not fail, by all processes.
func (g *GPU) Made(c Call) int64 { return g.made[c].Load() }

// Reserved returns the bytes of device memory that sessions and graphs hold, of all processes that have not died.
func (g *GPU) Reserved() int64 { return g.reserved.Load() }
