package sharedsched

import (
	"fmt"
	"time"
)

// trialRecord is a trial's memory of tasks, to find events that must not happen to them.
type trialRecord struct {
	tasks    map[Handle]*trialTask
	targets  []trialTarget
	expelled map[VersionID]bool
	long     map[*device]Time // when background work began that took more than a tenth of a target
}

type trialTask struct {
	version    VersionID
	key, who   string
	rows, next int
	ended      bool
}

// trialTarget is a target of foreground work.
type trialTarget struct {
	at     Time
	device *device
	target time.Duration
}

func newTrialRecord() trialRecord {
	return trialRecord{tasks: map[Handle]*trialTask{}, expelled: map[VersionID]bool{}, long: map[*device]Time{}}
}

func (r *trialRecord) admit(c *Core, now Time, h Handle, v VersionID, task *Task) error {
	if r.tasks[h] != nil {
		return fmt.Errorf("handle %x names two tasks", h)
	}
	if r.expelled[v] {
		return fmt.Errorf("task %x was admitted after its version %d was expelled", h, v)
	}
	t := c.get(h)
	r.tasks[h] = &trialTask{version: v, key: task.Key, who: task.Identity, rows: t.rows}
	// Only a target that a row could meet.
	met := task.Target == 0 || task.Target >= t.queue.rowCost || t.queue.fullHigh == 0
	if classOf(t.order) == foreground && !t.alone && met {
		r.targets = append(r.targets, trialTarget{now, t.queue.device, t.due.Sub(now)})
	}
	return nil
}

func (r *trialRecord) end(h Handle, how End) error {
	t := r.tasks[h]
	switch {
	case t == nil:
		return fmt.Errorf("task %x ended and was never admitted", h)
	case t.ended:
		return fmt.Errorf("task %x ended twice", h)
	case how == EndDone && t.next != t.rows:
		return fmt.Errorf("task %x is done, but of its %d rows %d were started", h, t.rows, t.next)
	}
	t.ended = true
	return nil
}

// expel notes the actions of a version that was just expelled.
func (r *trialRecord) expel(c *Core, v VersionID, acts []Action) error {
	r.expelled[v] = true
	for _, a := range acts {
		if a.Version != v || a.Kind == TaskEnded && (a.End != EndRemoved || r.tasks[a.Task].version != v) {
			return fmt.Errorf("version %d was expelled, and this came of it: %+v", v, a)
		}
	}
	for h, k := range r.tasks {
		if t := c.get(h); k.version == v && !k.ended && (t.running == 0 || t.state == taskQueued) {
			return fmt.Errorf("task %x of version %d, which was expelled, has %d rows running and is in state %d", h, v,
				t.running, t.state)
		}
	}
	if cv := c.version(v); cv != nil {
		for _, q := range cv.queues {
			if q.ring.Len() > 0 || q.waiting > 0 || q.stage != resting {
				return fmt.Errorf("queue %d of an expelled version has %d tasks of %d rows and is %v", q.id, q.ring.Len(),
					q.waiting, q.stage)
			}
		}
	}
	return nil
}

// over says whether every task has ended.
func (r *trialRecord) over() error {
	for h, t := range r.tasks {
		if !t.ended {
			return fmt.Errorf("task %x was admitted and never ended", h)
		}
	}
	return nil
}

// batch checks a batch that was just started on lane l.
func (r *trialRecord) batch(c *Core, now Time, l *lane, b *Batch) error {
	if r.expelled[b.Version] {
		return fmt.Errorf("a batch of version %d is started, which was expelled", b.Version)
	}
	v := c.version(b.Version)
	rows, front, whole := 0, 0, !v.settings.Batched
	for _, sp := range b.Spans {
		t := c.get(sp.task)
		if t.limit <= now {
			return fmt.Errorf("rows of task %x start after its limit", sp.task)
		}
		k, first := r.tasks[sp.task], r.tasks[b.Spans[0].task]
		if k.version != b.Version || k.key != first.key || k.who != t.queue.flow.identity ||
			t.queue != l.queue && (t.alone || classOf(t.order) == background || k.next+sp.Rows < k.rows ||
				t.queue.shape != l.queue.shape) {
			return fmt.Errorf("a batch of version %d and %+v has a task of %+v", b.Version, *first, *k)
		}
		if k.ended || sp.First != k.next || sp.Rows < 1 || sp.First+sp.Rows > k.rows {
			return fmt.Errorf("rows %d+%d of task %x start, %d of %d have started", sp.First, sp.Rows, sp.task, k.next,
				k.rows)
		}
		k.next += sp.Rows
		rows += sp.Rows
		if classOf(t.order) == foreground {
			front += sp.Rows
		}
		whole = whole || t.alone
	}
	if rows < 1 || rows != b.Rows || whole != b.Alone || whole && (len(b.Spans) > 1 || b.Padded != rows) {
		return fmt.Errorf("a batch of %d rows, counted %d, in %d spans, as %d; alone: %v, want %v", b.Rows, rows,
			len(b.Spans), b.Padded, b.Alone, whole)
	}
	drains := v.closing || c.draining
	if l.class == background && !drains {
		if err := r.background(c, now, l); err != nil {
			return err
		}
	}
	if whole {
		return nil
	}
	if front > 0 && front < rows && !drains && b.Padded != v.settings.padded(front) {
		return fmt.Errorf("%d background rows make a batch of %d rows one of %d", rows-front, front, b.Padded)
	}
	return c.checkSize(l, b)
}

// checkSize compares a batch with its bounds.
func (c *Core) checkSize(l *lane, b *Batch) error {
	s := &c.version(b.Version).settings
	if b.Padded != s.padded(b.Rows) || b.Rows > s.MaxBatchSize {
		return fmt.Errorf("a batch of %d rows is executed as %d; %d are allowed, of sizes %v", b.Rows, b.Padded,
			s.MaxBatchSize, s.AllowedBatchSizes)
	}
	if rows := c.version(b.Version).fits(l.queue.shape, l.device.memory); b.Padded > max(rows, s.padded(1)) {
		return fmt.Errorf("a batch is executed as %d rows, memory suffices for %d", b.Padded, rows)
	}
	budget := time.Duration(float64(s.MaxBatchCost) * l.device.state.Waits())
	shape := l.queue.shape
	if shape.IsCold() {
		if b.Rows > 4 {
			return fmt.Errorf("a batch of %d rows, although nothing was measured", b.Rows)
		}
		return nil
	}
	if budget > 0 && l.est.Cost > budget && b.Padded > s.padded(1) {
		return fmt.Errorf("a batch of %d rows takes %v, of which %v are allowed", b.Rows, l.est.Cost, budget)
	}
	return nil
}

// background checks that background work delays no other task, but for a tenth of the time.
func (r *trialRecord) background(c *Core, now Time, l *lane) error {
	for slot := range c.tasks {
		t := &c.tasks[slot]
		if t.state == taskQueued && classOf(t.order) == foreground && t.queue.device == l.device {
			return fmt.Errorf("background work starts while task %d waits", slot)
		}
	}
	before := now.Sub(r.long[l.device])
	for _, t := range r.targets {
		if t.device == l.device && now.Sub(t.at) < 3*time.Second/4 && l.est.Cost > t.target/10 {
			if l.est.Cost > before/10 {
				return fmt.Errorf("background work of %v starts %v after somebody wanted an answer within %v, and %v after "+
					"such work", l.est.Cost, now.Sub(t.at), t.target, before)
			}
			r.long[l.device] = now
		}
	}
	return nil
}

// checkIdle checks, after a lane found nothing to start, that no foreground task waits which could have been started.
func (c *Core) checkIdle(now Time, device *device) error {
	for _, q := range c.queues {
		if q == nil || q.ring.Len() == 0 || q.device != device || q.shape.ColdInFlight() {
			continue
		}
		s, first := &q.version.settings, &c.tasks[q.ring.At(0).Task]
		drains := q.version.closing || c.draining
		if classOf(first.order) == background && !drains {
			continue
		}
		most, full, high := c.fullBatch(q)
		rows, oldest, soonest, wanted, begun := 0, Never, Never, Never, false
		for i := range q.ring.Len() {
			t := &c.tasks[q.ring.At(i).Task]
			rows += t.rows - t.next
			oldest, soonest, wanted, begun = min(oldest, t.arrival), min(soonest, t.limit), min(wanted, t.wanted),
				begun || t.next > 0
		}
		held := s.BatchTimeout > 0 && s.Batched && !first.alone && !drains && !c.hurrying && rows < most && !begun &&
			oldest.Add(s.BatchTimeout) > now
		if soonest != Never && endBy(soonest, oldest)-Time(max(full, high)) <= now {
			held = false
		}
		if cost := q.shape.Estimate(s.padded(min(rows, most))).Cost; wanted != Never &&
			wanted-Time(cost+cost/20) <= now {
			held = false
		}
		if !held && !(c.keepsLast(device) && q.isLong()) {
			return fmt.Errorf("%d rows of queue %d wait, nothing holds them, and a lane stays idle", rows, q.id)
		}
	}
	return nil
}
