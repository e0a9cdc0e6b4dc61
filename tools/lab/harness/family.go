package harness

import "github.com/prometheus/procfs"

// Family returns a process and all that it started, as far as they have not ended. It looks through all processes,
// which takes milliseconds.
func Family(pid int) []procfs.Proc {
	all, _ := procfs.AllProcs() // without /proc nothing is measured
	children := map[int][]procfs.Proc{}
	var family []procfs.Proc
	for _, p := range all {
		if stat, err := p.Stat(); err == nil {
			children[stat.PPID] = append(children[stat.PPID], p)
		}
		if p.PID == pid {
			family = append(family, p)
		}
	}
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i].PID]...)
	}
	return family
}
