package main

import (
	"os"

	"github.com/prometheus/procfs"

	"github.com/weftserve/weft/tools/lab/harness"
)

// usage is processor time, in seconds, since the machine or the process started.
type usage struct {
	all  float64 // that there was
	busy float64 // that anybody used, but for interrupts: those of the network are the servers' own
	ours float64 // that this program and its children used, also children that have ended
}

const userHZ = 100 // the unit of times in /proc

// usageNow reads /proc. Without it all is 0.
func usageNow() (u usage) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return u
	}
	machine, _ := fs.Stat()
	c := machine.CPUTotal // whose times of guests are in the others
	u.busy = c.User + c.Nice + c.System + c.Steal
	u.all = u.busy + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ
	for _, p := range harness.Family(os.Getpid()) {
		if stat, err := p.Stat(); err == nil {
			u.ours += float64(int(stat.UTime+stat.STime)+stat.CUTime+stat.CSTime) / userHZ
		}
	}
	return u
}

// others is the part of the machine's processor time that other programs used between two readings.
func others(before, after usage) float64 {
	if after.all <= before.all {
		return 0
	}
	return max(0, ((after.busy-before.busy)-(after.ours-before.ours))/(after.all-before.all))
}
