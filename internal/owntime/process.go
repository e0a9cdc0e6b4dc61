package owntime

import (
	"os"
	"time"
)

// process is what is known of one at the latest look.
type process struct {
	pid     int
	used    time.Duration     // of processors, since its start
	threads map[string]thread // nil: they were not looked at
	stopped time.Duration     // for how long it has been
}

// thread is what is known of one: the processor time that it used, and how long it waited for that, since its start.
type thread struct {
	used, waited time.Duration
	counted      time.Duration // of a wait that goes on, and is known to the system when it is over
}

// look returns the processor time that the process used since the latest look, and how much of the time that has passed
// it did not have. The latter is found out only if it is judged.
func (p *process) look(took time.Duration, m *machine, judged bool) (used, lost time.Duration) {
	before := *p
	p.used, p.threads, p.stopped = usedBy(p.pid), nil, 0
	if before.used > 0 {
		used = max(0, p.used-before.used)
	}
	if !judged {
		return used, 0
	}
	if p.pid != os.Getpid() && isStopped(folder(p.pid)) {
		if p.stopped = before.stopped + took; p.stopped > pauseMost {
			took = 0
		}
		return used, took
	}
	waited := time.Duration(float64(used) * m.stolen / (1 - m.stolen))
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

// wait returns how much of a time the thread has waited.
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
