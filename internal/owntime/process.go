package owntime

import (
	"os"
	"time"
)

// process is what is known of a process at the latest look. The lock of looks guards it.
type process struct {
	pid     int
	used    time.Duration     // of processors, since its start
	threads map[string]thread // nil: they were not looked at
	stopped time.Duration     // for how long it has been
}

// thread is the processor time that a thread used and how long it waited for a processor, both since its start.
type thread struct {
	used, waited time.Duration
	counted      time.Duration // of a wait that goes on, and is known to the system when it is over
}

// look returns the processor time that the process used since the latest look, and how much of the time that passed it
// did not have. The latter takes some reads of /proc, and is found out only if the process is judged.
func (p *process) look(took time.Duration, m *machine, judged bool) (used, lost time.Duration) {
	before := *p
	p.used, p.threads, p.stopped = usedBy(p.pid), nil, 0
	if before.used > 0 {
		used = max(0, p.used-before.used)
	}
	if !judged {
		return used, 0
	}
	// This process cannot see itself stopped: late looks tell of that.
	if p.pid != os.Getpid() && isStopped(folder(p.pid)) {
		if p.stopped = before.stopped + took; p.stopped > pauseMost {
			took = 0
		}
		return used, took
	}
	// While it used a second, as much was stolen from it as from all that ran, by the ratio on the whole machine.
	waited := time.Duration(float64(used) * m.stolen / (1 - m.stolen))
	// On a machine where nobody waits, no thread needs to be read.
	if m.pressed {
		p.threads = threadsOf(p.pid)
	}
	for name, now := range p.threads {
		if was, known := before.threads[name]; known {
			waited += now.wait(was, took, folder(p.pid)+"task/"+name+"/")
			p.threads[name] = now
		}
	}
	return used, min(waited, max(0, took-used))
}

// wait returns how long the thread waited for a processor, of the time since the latest look. The system adds a wait to
// its sum when the wait ends. So a thread that is runnable and used nothing counts as waiting now, and what was counted
// so is subtracted once the system knows it.
func (t *thread) wait(was thread, took time.Duration, folder string) time.Duration {
	if *t == (thread{used: was.used, waited: was.waited}) {
		if isRunnable(folder) {
			t.counted = was.counted + took
			return took
		}
		return 0
	}
	return min(took, max(0, t.waited-was.waited-was.counted))
}
