//go:build linux && cgo

package nvidia

import (
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/weftserve/weft/gpu"
)

// processes distinguishes our use of a device from that of others.
//
// In a container the driver may number processes as the machine does, and our own number is another one there. Then our
// process cannot be told from others, and nothing is reported of the others (which costs some accuracy after they come
// or go, see the residual in sharedsched/cost), until our own number was among the ones that the driver lists: then it
// numbers them as we do.
type processes struct {
	own       uint32
	sameCount bool   // the driver numbers processes as we do
	last      uint64 // the newest sample that was looked at, in microseconds since 1970; 0: none yet
}

// initialNamespace is the name of the machine's own PID namespace, a constant of Linux (PROC_PID_INIT_INO).
const initialNamespace = "pid:[4026531836]"

func ownProcess() processes {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return processes{own: uint32(os.Getpid()), sameCount: err == nil && namespace == initialNamespace}
}

// firstLook is how far back the first look at the samples of processes goes.
const firstLook = 2 * time.Second

// processUtilization asks the binding, which panics where a process comes between its asking for the number of samples
// and for these.
func (d *device) processUtilization(since uint64) (samples []nvml.ProcessUtilizationSample, ret nvml.Return) {
	defer func() {
		if recover() != nil {
			samples, ret = nil, nvml.ERROR_UNKNOWN
		}
	}()
	return d.own.GetProcessUtilization(since)
}

// coTenant reads the share of other processes: the sum of the latest sample of each since the last time. A process that
// used nothing has none.
func (d *device) coTenant(s *gpu.Sample) nvml.Return {
	p := &d.processes
	if p.last == 0 {
		p.last = uint64(time.Now().Add(-firstLook).UnixMicro())
	}
	samples, ret := d.processUtilization(p.last)
	switch {
	case ret == nvml.SUCCESS, ret == nvml.ERROR_NOT_FOUND:
	case ret == nvml.ERROR_INSUFFICIENT_SIZE && len(samples) == 0: // how some drivers say that there are none
	default:
		return ret
	}
	latest := map[uint32]nvml.ProcessUtilizationSample{}
	for _, one := range samples {
		// Drivers have been seen to leave places of the list unfilled.
		if one.Pid != 0 && one.SmUtil <= 100 && one.TimeStamp > max(p.last, latest[one.Pid].TimeStamp) {
			latest[one.Pid] = one
		}
	}
	sum := 0
	for pid, one := range latest {
		p.last = max(p.last, one.TimeStamp)
		if pid == p.own {
			p.sameCount = true
		} else {
			sum += int(one.SmUtil)
		}
	}
	if !p.sameCount {
		return nvml.ERROR_NO_DATA
	}
	s.CoTenant = min(10*sum, 1000)
	return nvml.SUCCESS
}
