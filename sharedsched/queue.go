package sharedsched

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
)

// queue holds the waiting tasks of one flow and key. It is made when a task brings a key that has none, and dropped
// when its version or flow is gone, when it has been idle for longest and another one needs its place, or at once where
// its key is long. It is idle while nothing of it waits or runs; stage.go has its other stages.
//
// The figures of the waiting tasks follow the ring: expect and forget count the tasks that enter and leave it, rescan
// looks at all of them. The costs are as of the last refresh or fullBatch; touch marks them as changed.
type queue struct {
	id         int32
	local      int32 // its id within the flow
	version    *version
	flow       *flow    // of the version, or of an identity
	tenancy    *tenancy // of the flow in the version
	device     *device  // of the flow
	key        string
	kin        *kin  // the queues of the version and key
	place      int32 // among them
	shape      *shape
	ring       ring
	foreground int                 // tasks of that class in the ring; they come before the others
	ofRank     [backgroundRank]int // of these
	waiting    int                 // rows in the ring that were not started
	running    int                 // batches in flight
	// Of the tasks in the ring, kept only where there is a batch timeout: the earliest arrival, the earliest limit, the
	// earliest time by which a batch is to end for a target that was named, and whether rows of one were started
	// already.
	oldest, soonest, wanted Time
	begun                   bool
	// by a pick that could not wait for the end of the batch timeout; until a batch is started
	unheld  bool
	idleAt  Time // when it last became empty, to choose the queue to evict
	touched bool // in Core.touched

	callers callers // of its latest batch, see gather.go

	stage   stage
	class   class         // unless resting
	planned int           // the most rows of the next batch, as of the last refresh
	served  bool          // a batch was started since the last refresh
	cost    time.Duration // of the next batch, as of the last refresh
	due     Time          // when its first task wants to be answered, as of the last refresh
	latest  Time          // by when the batch must start for that, as of the last refresh
	work    time.Duration // expected cost of its waiting foreground tasks

	// The size and the cost of a full batch, as of this sum of the device's revisions. See fullBatch.
	asOf       uint64 // 0: the known costs, or the settings, have changed since
	most       int
	underCap   int           // of them, within the device cap
	full       cost.Estimate // of most rows
	fullHigh   time.Duration
	rowCost    time.Duration // of a batch of one row
	ownCost    time.Duration // of a full batch if memory had no bound
	costBound  bool          // one more row would cost more than the settings allow
	unmeasured bool          // larger sizes were not measured yet
	learning   bool          // first measurements of the shape are being taken
	alone      bool          // its latest task ran alone, such as one of a proof
	rest       Bound         // why its latest batch left rows waiting

	crowd  int  // its foreground tasks when its first one became late; 0: it is not
	backTo Time // until then its stale tasks are set back, for it was full (flood.go)
}

// address says which queue of a version it is.
type address struct {
	flow *flow
	key  string // Task.Key
}

// isIdle reports whether nothing of the queue waits or runs.
func (q *queue) isIdle() bool { return q.ring.Len() == 0 && q.running == 0 }

// queueFor returns the version's queue for a flow and key, a new one if need be. It returns nil when maxQueues keys of
// the flow have work.
func (c *Core) queueFor(v *version, f *flow, t *Task) *queue {
	if l := v.latest; l != nil && l.flow == f && l.key == t.Key {
		return l
	}
	at := address{f, t.Key}
	if q := v.queues[at]; q != nil {
		v.latest = q
		return q
	}
	has := f.tenancy(v)
	if has.queues == maxQueues && !c.evictQueue(v, slices.Values(f.locals)) {
		return nil
	}
	if len(v.queues) >= maxOfAll {
		c.evictQueue(v, maps.Values(v.queues)) // where all have work, tasks bound how many there are
	}
	d := v.flow.device
	q := &queue{
		version: v, flow: f, tenancy: has, device: d, key: t.Key, shape: v.shape(t.ShapeKey, has, c.seq, &d.state),
	}
	if n := len(c.freeIDs); n > 0 {
		q.id = c.freeIDs[n-1]
		c.freeIDs = c.freeIDs[:n-1]
		c.queues[q.id] = q
	} else {
		q.id = int32(len(c.queues))
		c.queues = append(c.queues, q)
	}
	q.shape.join(q)
	c.joinKin(q)
	q.local = f.take(q)
	v.queues[at] = q
	has.queues++
	return q
}

// evictQueue drops the one of some queues that has been idle for longest: of v, and of those of the flow that has most
// in v. It reports whether there was one.
func (c *Core) evictQueue(v *version, of iter.Seq[*queue]) bool {
	var victim *queue
	// The choice is unique (ties go to the lower id), so the order of iteration does not matter.
	for q := range of {
		if q == nil || q.version != v || !q.isIdle() {
			continue
		}
		if victim == nil || cmp.Or(cmp.Compare(victim.tenancy.queues, q.tenancy.queues),
			cmp.Compare(q.idleAt, victim.idleAt), cmp.Compare(q.id, victim.id)) < 0 {
			victim = q
		}
	}
	if victim == nil {
		return false
	}
	c.dropQueue(victim)
	return true
}

// dropQueue forgets an idle queue. The known cost of its shape stays with the version.
func (c *Core) dropQueue(q *queue) {
	v, f := q.version, q.flow
	delete(v.queues, address{f, q.key})
	v.latest = nil
	q.shape.leave(q)
	c.leaveKin(q)
	q.tenancy.queues--
	f.locals[q.local] = nil
	c.queues[q.id] = nil
	c.freeIDs = append(c.freeIDs, q.id)
	c.forgetRemoved(f)
}

// expect counts a task that waits now, and the device time that it asks for: work, its share of a full batch.
func (q *queue) expect(k *task, work time.Duration) {
	d, f := q.device, q.flow
	if q.fullHigh > 0 { // a guess must refuse nothing
		k.work = work
	}
	if classOf(k.order) == foreground {
		q.foreground++
		q.ofRank[k.rank]++
		q.work += k.work
		d.foreground++
		d.work += k.work
		f.work += k.work
	}
}

// appraise counts the device time that tasks ask for that came before it was known what any costs.
func (c *Core) appraise(q *queue) {
	for i := range q.ring.Len() {
		k := &c.tasks[q.ring.At(i).Task]
		more := q.part(k.rows-k.next) - k.work
		k.work += more
		if classOf(k.order) == foreground {
			q.work += more
			q.device.work += more
			q.flow.work += more
		}
	}
}

// forget uncounts a task that expect counted.
func (q *queue) forget(k *task) {
	d, f := q.device, q.flow
	if classOf(k.order) == foreground {
		q.foreground--
		q.ofRank[k.rank]--
		q.work -= k.work
		d.foreground--
		d.work -= k.work
		f.work -= k.work
	}
}

// spend uncounts the device time of rows of a task that were started, while others of its rows wait.
func (q *queue) spend(k *task, rows int) {
	if part := k.work * time.Duration(rows) / time.Duration(k.rows-k.next+rows); classOf(k.order) == foreground {
		k.work -= part
		q.work -= part
		q.device.work -= part
		q.flow.work -= part
	}
}
