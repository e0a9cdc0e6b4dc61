package sharedsched

import "time"

// A target orders the tasks of a queue, and queues and flows at the pick; it refuses and drops nothing.

// target returns how long after its arrival the answer to t is wanted, and whether the task or the settings named that.
// A target that not even a row of its own could meet orders nothing: it would put the task first each time, and others
// late, for nothing. (On drawn workloads that makes no difference. It stays for a caller with such a target who would
// end everybody's batch timeout each time.)
func (q *queue) target(t *Task) (d time.Duration, named bool) {
	s := &q.version.settings
	switch {
	case t.Target > 0 && !q.isUnreal(t):
		return t.Target, true
	case s.TargetLatency > 0:
		return s.TargetLatency, true
	}
	return min(max(targetBatches*q.ownCost, minTarget), maxTarget), false
}

// isUnreal reports whether the task asks for a target that not even a row of its own could meet.
func (q *queue) isUnreal(t *Task) bool {
	return q.fullHigh > 0 && t.Target > 0 && t.Target < q.rowCost
}

// hear notes the demand of a task, admitted or not: it decides which flows ask for more than their share, and how large
// batches may be. It returns the target, and whether that was named. Proof and warm-up want their answers by no
// particular time, and background work must not affect others.
func (c *Core) hear(now Time, q *queue, t *Task, limit Time) (target time.Duration, named bool) {
	c.fullBatch(q) // what follows, here and in admission, reads its results from the queue
	target, named = q.target(t)
	if t.Alone || t.Priority == Sheddable {
		return target, named
	}
	wanted := min(target, limit.Sub(now))
	if q.isUnreal(t) {
		wanted = 0 // a target that cannot be met must not make others' batches small
	}
	f := q.flow
	if f.came <= f.looked {
		f.came = now
	}
	f.recent.named = named
	f.recent.arrived(now, q, wanted, t.Rows)
	q.device.guard.saw(now, wanted)
	return target, named
}

// endBy returns when a batch should end that answers a task by its target.
func endBy(target, arrival Time) Time {
	spare := (target - arrival) / margin
	return target - spare - min(spare, delivery)
}
