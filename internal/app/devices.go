package app

import (
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

const (
	cpuDevice   = "cpu"
	synthDevice = "synth"

	// gpuHandover is how much work a GPU has left when it is given its next batch: the time to wake a thread by a
	// timer, which may be a millisecond late, to assemble a batch and to launch it. It is small compared with the
	// latency targets that people have.
	gpuHandover = 2 * time.Millisecond
)

// cudaDevice is a GPU as CUDA counts them.
type cudaDevice struct {
	name string // such as cuda:0
	id   int
}

// devices are the devices that batches run on.
type devices struct {
	cpu    bool
	gpus   []cudaDevice
	synths []string // for synthetic models; never none
}

// parseDevices reads names that config.Server.Check has approved.
func parseDevices(names []string) devices {
	var d devices
	for _, name := range names {
		if name == cpuDevice {
			d.cpu = true
			continue
		}
		if strings.HasPrefix(name, synthDevice) { // a test that wants several
			d.synths = append(d.synths, name)
			continue
		}
		_, number, _ := strings.Cut(name, ":")
		id, err := strconv.Atoi(number)
		if err != nil {
			id = 0 // plain cuda is the first one
		}
		d.gpus = append(d.gpus, cudaDevice{name: "cuda:" + strconv.Itoa(id), id: id})
	}
	if d.synths == nil {
		d.synths = []string{synthDevice}
	}
	return d
}

// forScheduler lists the devices with their lanes. A GPU has two, so that copies overlap with computing; they share its
// time, so that the second is for the next batch and not for one more. Synthetic models have a device of their own, so
// that demonstrations and tests disturb nothing. GPUs may differ, so that each is a class by itself.
func (d devices) forScheduler() []sharedsched.Device {
	var all []sharedsched.Device
	for _, name := range d.synths {
		all = append(all, sharedsched.Device{Name: name, Class: synthDevice, Lanes: 1})
	}
	if d.cpu {
		all = append(all, sharedsched.Device{Name: cpuDevice, Class: cpuDevice, Lanes: 1})
	}
	for _, g := range d.gpus {
		all = append(all, sharedsched.Device{Name: g.name, Class: g.name, Lanes: 2, Handover: gpuHandover})
	}
	return all
}
