package app

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// Devices without a number, as --devices names them.
const (
	cpuDevice   = "cpu"
	synthDevice = "synth"

	// gpuHandover is how much work a GPU has left when the scheduler hands it the next batch. It covers the time to
	// wake a thread by a timer, which may be a millisecond late, to assemble a batch and to launch it. It is small
	// compared with the latency targets that people have.
	gpuHandover = time.Millisecond
)

// cudaDevice is a GPU as CUDA counts them.
type cudaDevice struct {
	name string // such as cuda:0
	id   int
}

// devices are the devices that batches run on, as --devices names them.
type devices struct {
	cpu    int // batches that the processor runs at a time; 0: it runs none
	gpus   []cudaDevice
	synths []string // for synthetic models; never none
}

// parseDevices reads names that config.Server.Check has approved. Errors of numbers can therefore not occur, except for
// plain cuda, which has none.
func parseDevices(names []string) devices {
	var d devices
	for _, name := range names {
		kind, number, numbered := strings.Cut(name, ":")
		if kind == cpuDevice {
			// None is set aside for gRPC: its threads sleep most of the time, and the system lets those go first.
			if d.cpu = runtime.GOMAXPROCS(0); numbered {
				d.cpu, _ = strconv.Atoi(number)
			}
			continue
		}
		if strings.HasPrefix(name, synthDevice) { // a test that wants several
			d.synths = append(d.synths, name)
			continue
		}
		id, err := strconv.Atoi(number)
		if err != nil {
			id = 0 // plain cuda is the first one
		}
		d.gpus = append(d.gpus, cudaDevice{name: "cuda:" + strconv.Itoa(id), id: id})
	}
	// Synthetic models run whatever --devices says.
	if d.synths == nil {
		d.synths = []string{synthDevice}
	}
	return d
}

// forScheduler lists the devices with their lanes:
//
//   - A GPU has two lanes, so that copies of one batch overlap with computing of the other. They share the GPU's time:
//     the second is for the next batch and not for one more.
//   - The CPU has a lane for each processor that it may keep busy.
//   - Synthetic models have a device of their own with one lane, so that demonstrations and tests disturb nothing.
//
// Estimates are shared within a class. GPUs may differ, so that each is a class by itself.
func (d devices) forScheduler() []sharedsched.Device {
	var all []sharedsched.Device
	for _, name := range d.synths {
		all = append(all, sharedsched.Device{Name: name, Class: synthDevice, Lanes: 1})
	}
	if d.cpu > 0 {
		all = append(all, sharedsched.Device{Name: cpuDevice, Class: cpuDevice, Lanes: d.cpu})
	}
	for _, g := range d.gpus {
		all = append(all, sharedsched.Device{Name: g.name, Class: g.name, Lanes: 2, Handover: gpuHandover})
	}
	return all
}

// weightsOfThread is how many bytes of weights are worth one more thread for an execution. With less, waking the thread
// takes as long as it saves; docs/bench/processors.md has the figures.
const weightsOfThread = 32 << 20

// threads returns how many threads ONNX Runtime may use within one execution on the processor. The weights stand for
// the work: they are known before the model is opened.
func (d devices) threads(asked modelrepo.Threads, f *modelfile.Files) int {
	if asked != modelrepo.AutoThreads {
		return int(asked)
	}
	// Large tensors may lie in files beside the model.
	weights := f.Opened.Size
	for _, e := range f.External() {
		weights += e.Size
	}
	return max(1, min(d.cpu, int(weights/weightsOfThread)))
}
