package main

import (
	"fmt"
	"os"

	"github.com/prometheus/procfs"

	"github.com/weftserve/weft/tools/lab/harness"
)

// use is what the processes of a server take.
type use struct {
	server, workers float64 // resident memory in MiB; of the workers without what others share
	seconds         float64 // of processors
}

func (u use) memory() float64 { return u.server + u.workers }

const mib = 1 << 20

// useOf reads what a server takes. A process that has ended takes nothing.
func useOf(pid int) (u use) {
	for _, p := range harness.Family(pid) {
		stat, err := p.Stat()
		if err != nil {
			continue
		}
		if p.PID == pid {
			u.server = float64(stat.ResidentMemory()) / mib
		} else if pages, err := p.ProcSMapsRollup(); err == nil {
			u.workers += float64(pages.Pss) / mib
		}
		u.seconds += stat.CPUTime()
	}
	return u
}

// forgetPeak has the system note the most memory of a process from now on.
func forgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakOf returns the most memory of a process since forgetPeak, in MiB; 0 if it has ended.
func peakOf(pid int) float64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0
	}
	return float64(status.VmHWM) / mib
}
