package sharedsched

import "time"

// A target orders the tasks of a queue, and queues and flows at the pick; it refuses and drops nothing.

// target returns how long after its arrival the answer to t is wanted, and whether the task or the settings named that.
// A target that not even a row of its own could meet orders nothing: it would put the task first each time, and others
// late, for nothing.
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

// hear notes the demand of a task, admitted or not: an answer to its rows within target. Proof and warm-up want their
// answers by no particular time, and background work must not affect others. named: the target was not derived.
func (q *queue) hear(now Time, t *Task, target time.Duration, named bool) {
	if t.Alone || t.Priority == Sheddable {
		return
	}
	if q.isUnreal(t) {
		target = 0 // a target that cannot be met must not make others' batches small
	}
	q.flow.recent.named = named
	q.flow.recent.arrived(now, q, target, t.Rows)
	q.device.guard.saw(now, target)
}

// endBy returns when a batch should end that answers a task by its target.
func endBy(target, arrival Time) Time {
	spare := (target - arrival) / margin
	return target - spare - min(spare, delivery)
}
