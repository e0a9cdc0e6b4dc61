package sharedsched

import (
	"time"
)

// Task is the work of one request as the scheduler sees it: features, no tensors.
type Task struct {
	// Rows is the size along the batch dimension, at least 1.
	Rows int
	// Key names the queue within the version and flow: only tasks of equal Key share an execution. ShapeKey is the part
	// of it that decides the cost of an execution ("" where every shape is fixed).
	Key, ShapeKey string
	// Identity is who is charged for the task, such as a tenant of the server: all that it asks for of a device, of any
	// versions, is one flow. "": the flow of the version.
	Identity string
	// Weight is the identity's part of its devices, in relation to the weights of other flows: 0.001 to 1,000,000;
	// zero: 1. That of its latest task counts.
	Weight float64
	// Bytes is the payload's size. Queued bytes count against Config.MaxQueuedBytes.
	Bytes int64
	// Limit is when an answer stops being worth anything: the task is refused, or dropped from its queue, rather than
	// run after it. Zero: no limit beyond the version's MaxLatency.
	Limit time.Time
	// OpenEnded: the caller gave no limit, and Limit, if any, stands for the version's. In overload such tasks do not
	// keep their place for as long as that (flood.go).
	OpenEnded bool
	// Target is when the answer is wanted, counted from arrival. It orders, and no batch timeout is waited for past
	// the latest start that meets it. Zero or less: the version's default.
	Target   time.Duration
	Priority Priority
	// Alone asks for an execution of its own whatever the version's settings, as proof of batching and warm-up need.
	// The task is never split.
	Alone bool
	// Unmeasured keeps the execution out of the cost model, as befits the first run of a fresh shape. Only with Alone.
	Unmeasured bool
	// Payload is handed to the Executor as it is.
	Payload any
}

// Outcome says what happened to a task that was executed. Of a task split over several executions it has the times of
// the whole and the batch of the last one.
type Outcome struct {
	Queue      time.Duration // from arrival to the start of the first execution
	Compute    time.Duration // from the start of the first execution to the end of the last
	DeviceTime time.Duration // this task's share, by rows, of the device time of its executions, padding included
	Device     string
	Reason     FlushReason
	// BatchRequests and BatchRows count the tasks and rows of the execution; PaddedRows the rows added to fill it up.
	BatchRequests, BatchRows, PaddedRows int
	Executions                           int
	Batch                                uint64 // the number of the execution; 0: it was none of the scheduler's
	Ended                                Time   // when it ended; 0 where Batch is
}

// taskState is where a task is in its life: queued by enqueue, running by takeRows, ending by stop, free by finish.
//
//	queued → running → (free)     all rows started, then all ended
//	queued → (free)               cancelled, expired or closed before any row started
//	queued → ending → (free)      the same after some rows started, or one of them failed: the rest is never started
//	running → ending → (free)     an execution failed while others of its rows were running
type taskState uint8

const (
	taskFree    taskState = iota
	taskQueued            // some rows wait in the queue's ring
	taskRunning           // every row was started, some have not ended
	taskEnding            // how it ends is decided; started rows have not ended
)

// task is the state of an admitted task. Its rows start in order, a batch's part at a time; it ends when the last of
// started rows has ended, because an executor reads its payload until then.
type task struct {
	gen   uint32
	state taskState
	order
	queue *queue
	rank  uint8 // of its priority

	alone, unmeasured bool
	probe             bool // admitted against the estimate, to check it
	end               End  // for taskEnding: how it will end

	rows    int // in all
	next    int // first row that was not started
	running int // rows started and not ended
	bytes   int64
	work    time.Duration // it is expected to cost
	arrival Time
	timing

	started Time // of the first execution
	outcome Outcome
	nextGap int32 // for taskFree: the next free slot, -1 for none
}

// timing is when a task is to be answered.
type timing struct {
	limit  Time // Never for none
	due    Time // when its answer is wanted
	wanted Time // by when its batch is to end for a target that was named; Never if none was
	// the limit is not its own
	openEnded bool
}

// deadline returns when an answer stops being worth anything, as far as estimates may decide on that.
func (t *task) deadline() Time {
	if t.probe {
		return Never
	}
	return t.limit
}

// enqueue puts an admitted task into its queue. It is the only way in.
func (c *Core) enqueue(now Time, q *queue, t *Task, when timing, place order, work time.Duration,
	probe bool,
) Handle {
	v := q.version
	slot, k := c.take()
	h := c.handle(slot)
	k.state = taskQueued
	k.order = place
	k.queue, k.rank = q, ranks[t.Priority]
	k.alone, k.unmeasured, k.probe = t.Alone, t.Unmeasured, probe
	q.alone = t.Alone
	k.rows, k.bytes = t.Rows, t.Bytes
	k.arrival, k.timing = now, when

	if q.ring.Len() == 0 {
		q.oldest, q.soonest, q.wanted, q.begun = now, Never, Never, false
	}
	q.soonest, q.wanted = min(q.soonest, when.limit), min(q.wanted, when.wanted)
	q.ring.Insert(entry{order: k.order, Task: slot})
	q.waiting += t.Rows
	q.tenancy.queued[classOf(k.order)]++
	v.live++
	v.account.Accepted++
	if classOf(k.order) == foreground {
		q.flow.callers.asked(now)
		q.callers.came(now)
	}
	c.queuedBytes += t.Bytes
	q.expect(k, work)
	if when.limit != Never {
		c.limits.Add(uint64(h), int64(when.limit))
	}
	if d := q.device; d.until > now && (d.awaited == q.flow || !q.flow.beyond) {
		c.waited(now, d) // for it, or it goes first
		d.setTurn(now)
	}
	if q.stage == resting || q.ring.At(0).Task == slot || q.device.turn > now {
		c.refresh(now, q)
	} else {
		// One more task behind the head of a queue that is ready matters at the next pick, not before, unless its batch
		// may start beside another.
		c.touch(q)
	}
	return h
}

// unqueue takes a task out of its queue and all counts of waiting tasks: it has no rows left to start, or will start
// none. Every way out of a queue leads through it, so that these counts are kept in one place.
func (c *Core) unqueue(now Time, q *queue, t *task, next taskState) {
	t.state = next
	q.ring.Remove(t.order)
	if q.ring.Len() == 0 {
		q.idleAt = now
	}
	q.tenancy.queued[classOf(t.order)]--
	c.queuedBytes -= t.bytes
	q.forget(t)
	if t.limit != Never && c.limits.Left() {
		c.limits.Sweep(func(id uint64) bool { return c.waits(Handle(id)) })
	}
}

// stop ends a task before all of its rows were executed: rows that wait are never started. The task ends now, or with
// the last of its running rows. The first reason to stop is the one that counts, but for a failure, which says more to
// the caller.
func (c *Core) stop(now Time, slot int32, end End, out *Answer) {
	t := &c.tasks[slot]
	fails := end == EndFailed || end == EndAgain
	if t.state != taskEnding || fails && t.end != EndFailed && t.end != EndAgain {
		t.end = end
	}
	if t.state == taskQueued {
		q := t.queue
		q.waiting -= t.rows - t.next
		c.unqueue(now, q, t, taskEnding)
		c.touch(q)
	}
	t.state = taskEnding
	if t.running > 0 {
		return // the executor reads its payload until then
	}
	v := t.queue.version // finish forgets it
	c.finish(slot, t.end, out)
	c.retire(v, out)
}

// stopAll stops all tasks that have rows waiting in some queues, and ends the event.
func (c *Core) stopAll(now Time, end End, in func(*queue) bool, out *Answer) {
	for slot := range c.tasks {
		if t := &c.tasks[slot]; t.state == taskQueued && in(t.queue) {
			c.stop(now, int32(slot), end, out)
		}
	}
	c.refreshTouched(now)
}

// finish ends a task that has nothing running, and gives its slot back. It is the only way out, so that each task ends
// once.
func (c *Core) finish(slot int32, end End, out *Answer) {
	t := &c.tasks[slot]
	v := t.queue.version
	v.live--
	v.account.Ended[end]++
	out.Actions = append(out.Actions,
		Action{Kind: TaskEnded, Version: v.id, Task: c.handle(slot), End: end, Outcome: &t.outcome})
	c.put(slot)
}

// cancel carries out EventCancel.
func (c *Core) cancel(now Time, h Handle, out *Answer) bool {
	t := c.get(h)
	if t == nil || t.state != taskQueued {
		return false
	}
	c.stop(now, h.Slot(), EndCancelled, out)
	c.refreshTouched(now)
	return true
}
