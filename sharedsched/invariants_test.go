package sharedsched

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
)

// checker verifies the invariants of the package comment after every event.
type checker struct {
	ended   map[Handle]bool
	ends    [EndAgain + 1]uint64 // of tasks, by how
	virtual map[virtualClock]fairq.Tag
	broken  error
}

// virtualClock identifies the fair queue that a virtual time is of.
type virtualClock struct {
	*device
	class int
}

// note records actions and returns them.
func (k *checker) note(acts []Action) []Action {
	if k.ended == nil {
		k.ended = map[Handle]bool{}
	}
	for _, a := range acts {
		if a.Kind != TaskEnded {
			continue
		}
		if k.ended[a.Task] {
			k.broken = fmt.Errorf("task %x ended twice", a.Task)
		}
		k.ended[a.Task] = true
		k.ends[a.End]++
	}
	return acts
}

func (k *checker) invariants(c *Core) error {
	if k.broken != nil {
		return k.broken
	}
	inRing := map[int32]bool{}
	foregroundTasks := map[*device]int{}
	var bytes int64
	for _, q := range c.queues {
		if q == nil {
			continue
		}
		rows, front, ofRank := 0, 0, [backgroundRank]int{}
		for i := range q.ring.Len() {
			e := q.ring.At(i)
			if i > 0 && !q.ring.At(i-1).Before(e.order) {
				return fmt.Errorf("queue %d is out of order at %d", q.id, i)
			}
			t := &c.tasks[e.Task]
			if t.state != taskQueued || t.queue != q || t.order != e.order || inRing[e.Task] {
				return fmt.Errorf("queue %d holds task %d wrongly: %+v", q.id, e.Task, t)
			}
			inRing[e.Task] = true
			rows += t.rows - t.next
			bytes += t.bytes
			if classOf(t.order) == foreground {
				front++
				foregroundTasks[q.device]++
				ofRank[t.rank]++
			}
		}
		if front != q.foreground || ofRank != q.ofRank {
			return fmt.Errorf("queue %d counts %d foreground tasks, by rank %v, has %d, %v", q.id, q.foreground,
				q.ofRank, front, ofRank)
		}
		if rows != q.waiting {
			return fmt.Errorf("queue %d counts %d waiting rows, has %d", q.id, q.waiting, rows)
		}
		if now := 1 + q.device.state.Revision() + q.device.cap.revision; q.asOf == now && q.most > q.mayTake() {
			return fmt.Errorf("queue %d: batches have up to %d rows, memory suffices for %d", q.id, q.most, q.mayTake())
		}
		if u := &q.shape.memory; (u.most > 0) != slices.Contains(c.bounded, q.shape) || u.most >= max(u.failed, 2) {
			return fmt.Errorf("queue %d: memory %+v, bound: %v", q.id, *u, slices.Contains(c.bounded, q.shape))
		}
		if err := c.checkStage(q); err != nil {
			return err
		}
	}
	watched, err := checkLimits(c)
	if err != nil {
		return err
	}
	live := 0
	queued := map[*tenancy][2]int{}
	alive := map[*version]int{}
	for slot := range c.tasks {
		t := &c.tasks[slot]
		if t.state == taskFree {
			continue
		}
		live++
		v := t.queue.version
		alive[v]++
		if t.state == taskQueued {
			n := queued[t.queue.tenancy]
			n[classOf(t.order)]++
			queued[t.queue.tenancy] = n
		}
		if (t.state == taskQueued) != inRing[int32(slot)] {
			return fmt.Errorf("task %d in state %d: in a ring: %v", slot, t.state, inRing[int32(slot)])
		}
		if t.state != taskQueued && t.running == 0 {
			return fmt.Errorf("task %d in state %d has nothing running and has not ended", slot, t.state)
		}
		if wants := t.state == taskQueued && t.limit != Never; watched[int32(slot)] != wants {
			return fmt.Errorf("task %d: limit watched %v, want %v", slot, !wants, wants)
		}
	}
	if live != c.live || bytes != c.queuedBytes {
		return fmt.Errorf("live %d, bytes %d; a recount gives %d, %d", c.live, c.queuedBytes, live, bytes)
	}
	for _, v := range c.versions {
		if v != nil && v.live != alive[v] {
			return fmt.Errorf("version %s counts %d live, a recount gives %d", v.name, v.live, alive[v])
		}
	}
	return errors.Join(c.checkTenancies(queued), c.checkIdentities(), k.devices(c, foregroundTasks), c.checkGone(),
		k.accounts(c))
}

// accounts adds up the counts of tasks and executions.
func (k *checker) accounts(c *Core) error {
	var ends [EndAgain + 1]uint64
	for _, a := range c.accountStates() {
		tasks, executions := uint64(a.Live), uint64(a.InFlight)
		for end, n := range a.Ended {
			tasks += n
			ends[end] += n
		}
		for _, n := range a.Executions {
			executions += n
		}
		if tasks != a.Accepted || executions != a.Started {
			return fmt.Errorf("the account does not add up to %d tasks and %d executions: %+v", tasks, executions, a)
		}
	}
	if len(k.ended) > 0 && ends != k.ends { // else they were not noted
		return fmt.Errorf("the accounts count ends %v, there were %v", ends, k.ends)
	}
	return nil
}

// checkLimits returns the tasks whose limits are watched.
func checkLimits(c *Core) (map[int32]bool, error) {
	watched := map[int32]bool{}
	members := 0
	_, least, _ := c.limits.Min()
	for id, at := range c.limits.All() {
		members++
		h := Handle(id)
		if at < least {
			return nil, fmt.Errorf("limit %d of task %x is earlier than the least", at, h)
		}
		if c.waits(h) {
			if limit := c.get(h).limit; limit != Time(at) || watched[h.Slot()] {
				return nil, fmt.Errorf("task %x: limit %v watched as %v, before: %v", h, limit, at, watched[h.Slot()])
			}
			watched[h.Slot()] = true
		}
	}
	if gone := members - len(watched); gone != c.limits.Gone() || (gone >= 64 && 2*gone >= members) {
		return nil, fmt.Errorf("limits count %d gone of %d, a recount gives %d", c.limits.Gone(), members, gone)
	}
	return watched, nil
}

// checkStage compares a queue's place among the queues that batches are picked from with what it should be.
func (c *Core) checkStage(q *queue) error {
	f := q.flow
	d := f.device
	if q.stage == resting && c.holds.Has(q.id) && q.ring.Len() > 0 && classOf(q.ring.At(0).order) == background {
		return nil // it might block others for too long
	}
	// Time that passes without an event makes queues ready only in EventAdvance, so a held queue may be due.
	if ready, until := c.readiness(0, q); ready != (q.stage != resting) && until == Never {
		return fmt.Errorf("queue %d: stage %d, ready %v", q.id, q.stage, ready)
	} else if until != Never && (q.stage != resting) == c.holds.Has(q.id) {
		return fmt.Errorf("queue %d is to be held until %v: stage %d, watched %v", q.id, until, q.stage,
			c.holds.Has(q.id))
	}
	if q.stage != resting && q.class != c.classNow(q) {
		return fmt.Errorf("queue %d stands in class %d, want %d", q.id, q.class, c.classNow(q))
	}
	if got, want := d.pending.Has(q.id), q.stage == pending; got != want {
		return fmt.Errorf("queue %d: among the pending %v, want %v", q.id, got, want)
	}
	if got, want := d.blocks.Has(q.id), q.stage != resting && q.class == foreground; got != want {
		return fmt.Errorf("queue %d: among those that block %v, want %v", q.id, got, want)
	}
	for k := range f.demand {
		if got, want := f.demand[k].Has(q.local), q.stage == demanding && q.class == class(k); got != want {
			return fmt.Errorf("queue %d: among the demanding %v, want %v", q.id, got, want)
		}
		if first := f.first[k]; (first == nil) != (f.demand[k].Len() == 0) || first != nil && first.stage != demanding {
			return fmt.Errorf("queue %d: the flow's first queue of class %d is %v", q.id, k, first)
		}
		demands, within := f.demand[k].Len() > 0, class(k) == foreground && !f.beyond
		if got := d.within.Has(int32(f.id)); class(k) == foreground && got != (demands && within) {
			return fmt.Errorf("flow %s: demands service within its share %v, want %v", f.name, got, !got)
		}
		if got, want := d.fair[k].Demands(fairq.Flow(q.flow.id)), demands && !within; got != want {
			return fmt.Errorf("flow %s: demands service %v, want %v", f.name, got, want)
		}
	}
	return nil
}

func (k *checker) devices(c *Core, foregroundTasks map[*device]int) error {
	if k.virtual == nil {
		k.virtual = map[virtualClock]fairq.Tag{}
	}
	for _, d := range c.devices {
		if d.foreground != foregroundTasks[d] || d.removed {
			return fmt.Errorf("device %s counts %d foreground tasks, has %d; removed: %v", d.Name, d.foreground,
				foregroundTasks[d], d.removed)
		}
		for cl := range d.fair {
			at := virtualClock{d, cl}
			if d.fair[cl].Now() < k.virtual[at] {
				return fmt.Errorf("device %s: virtual time ran backwards", d.Name)
			}
			k.virtual[at] = d.fair[cl].Now()
		}
		inFlight := 0
		for _, l := range c.lanes {
			if l != nil && l.running && l.device == d {
				inFlight++
			}
		}
		if inFlight != d.inFlight {
			return fmt.Errorf("device %s counts %d batches in flight, has %d", d.Name, d.inFlight, inFlight)
		}
	}
	return nil
}

// checkGone checks that removed devices have batches in flight at most, and no waiting task.
func (c *Core) checkGone() error {
	places := 0
	for i, l := range c.lanes {
		if l == nil {
			continue
		}
		if places++; l.id != LaneID(i) || l.device.removed && !l.running ||
			l.device.removed == slices.Contains(c.devices, l.device) {
			return fmt.Errorf("lane %d of %s, removed %v, stands at %d; running: %v", l.id, l.device.Name,
				l.device.removed, i, l.running)
		}
	}
	for _, d := range c.devices {
		for _, l := range d.lanes {
			if c.lanes[l.id] != l {
				return fmt.Errorf("lane %d of %s is gone, the device is not", l.id, d.Name)
			}
		}
	}
	for _, q := range c.queues {
		if q != nil && q.device.removed && (q.ring.Len() > 0 || q.stage != resting) {
			return fmt.Errorf("%d tasks wait in queue %d, which is %v, for %s, which was removed", q.ring.Len(), q.id,
				q.stage, q.device.Name)
		}
	}
	for _, v := range c.versions {
		if v != nil && v.flow.device.removed && (!v.closing || v.live == 0) {
			return fmt.Errorf("version %s of %s, which was removed, has %d tasks; closing: %v", v.name,
				v.flow.device.Name, v.live, v.closing)
		}
	}
	return nil
}

// busyShares sums the device time charged to running and ended batches; it must equal the busy time of the devices that
// there ever were.
func (c *Core) busyShares(devices []*device, ended time.Duration) (shares, busy time.Duration) {
	shares = ended
	for _, l := range c.lanes {
		if l != nil && l.running {
			shares += l.share
		}
	}
	for _, d := range devices {
		busy += d.busy
	}
	return shares, busy
}
