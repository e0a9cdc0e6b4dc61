//go:build linux && cgo

package nvidia

import (
	"log/slog"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// events receives the errors that the driver reports, in a goroutine of its own: the driver makes its caller wait.
type events struct {
	set     nvml.EventSet // nil: events are not listened to
	devices []*device
	log     *slog.Logger
	stop    chan struct{}
	ended   chan struct{}
}

// listenFor is how long the driver is made to wait for an event, and so how long a stop takes.
var listenFor = 200 * time.Millisecond

// longestPause is the longest time without listening, after failing again and again.
const longestPause = time.Minute

// listen begins to count the errors of the devices that report any.
func (s *Source) listen(log *slog.Logger) *events {
	e := &events{devices: s.devices, log: log, stop: make(chan struct{}), ended: make(chan struct{})}
	if s.has("nvmlEventSetCreate") && s.has("nvmlDeviceRegisterEvents") &&
		s.has("nvmlEventSetWait_v2", "nvmlEventSetWait") && s.has("nvmlEventSetFree") {
		e.register(s.lib)
	}
	if e.set == nil {
		close(e.ended)
		return e
	}
	go e.run()
	return e
}

func (e *events) register(lib nvml.Interface) {
	set, ret := lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return
	}
	registered := map[nvml.Device]bool{}
	for _, d := range e.devices {
		if _, done := registered[d.whole]; !done {
			registered[d.whole] = d.whole.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS
		}
		if registered[d.whole] {
			d.hearsXIDs = true
			e.set = set
		}
	}
	if e.set == nil {
		_ = set.Free() // it has nothing
	}
}

func (e *events) run() {
	defer close(e.ended)
	told := map[*device]map[uint64]bool{}
	var pause time.Duration
	for {
		select {
		case <-e.stop:
			return
		case <-time.After(pause):
		}
		data, ret := e.set.Wait(uint32(listenFor.Milliseconds()))
		switch ret {
		case nvml.SUCCESS:
			pause = 0
			e.deliver(data, told)
		case nvml.ERROR_TIMEOUT:
			pause = 0
		default: // such as a device that is lost, which the poller reports
			pause = min(max(2*pause, time.Second), longestPause)
		}
	}
}

// deliver counts an error, and logs each kind once. told has the numbers that were logged for each device.
func (e *events) deliver(data nvml.EventData, told map[*device]map[uint64]bool) {
	if data.EventType != nvml.EventTypeXidCriticalError {
		return
	}
	for _, d := range e.devices {
		if d.whole != data.Device || d.Part && data.GpuInstanceId != noInstance && data.GpuInstanceId != d.instance {
			continue
		}
		d.lastXID.Store(int64(data.EventData))
		d.xids.Add(1)
		if told[d] == nil {
			told[d] = map[uint64]bool{}
		}
		if !told[d][data.EventData] {
			told[d][data.EventData] = true
			e.log.Warn("GPU error reported by the driver", "event", "gpu_error_reported", "device", d.Name,
				"xid", data.EventData, "remedy", "see the XID in NVIDIA's documentation", "repeats", "only counted")
		}
	}
}

func (e *events) close() {
	close(e.stop)
	<-e.ended
	if e.set != nil {
		_ = e.set.Free() // it goes with the shutdown anyway
	}
}
