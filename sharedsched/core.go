package sharedsched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

// maxQueues bounds the live queues (distinct keys) of one version. Idle ones make room for new ones.
const maxQueues = 256

// maxIdleKey is the longest key, in bytes, of a queue that is kept while it is idle: a key may hold the whole value of an unbatched
// input, and the queue is quickly made anew.
const maxIdleKey = 256

// Core is the scheduler as a value: every method takes the present time and what happened, changes the state, and appends what
// must be done about it to the caller's slice. It owns no goroutine, reads no clock, draws no random number, and no decision
// iterates a map, so the same events at the same times always lead to the same decisions. See the package comment for its
// states and invariants. It is not safe for concurrent use: Scheduler guards it with a mutex.
type Core struct {
	slab
	devices  []device
	lanes    []lane                 // by LaneID: the batch threads of all devices
	flows    []*flow                // by FlowID; nil once removed
	versions []*version             // by VersionID; nil once removed
	queues   []*queue               // by queue id; nil when free
	accounts map[[2]string]*Account // by name of a version and device

	freeFlows []FlowID // that may be used again
	freeIDs   []int32  // of queues, as well

	limits limits     // of tasks that wait
	holds  iheap.Heap // queues that wait for their batch timeout, by its end

	variant        Variant
	maxQueuedBytes int64
	queuedBytes    int64
	seq            uint64   // tasks ever submitted
	bounded        []*shape // whose executions ran out of memory lately
	touched        []*queue // queues that changed in the present event and are to be refreshed at its end
	hurry          bool     // no batch is held for its timeout
	draining       bool
	log            decisionLog
}

// FlowID names a flow: what fairness is owed to.
type FlowID int32

// LaneID names a lane: one place for a batch in flight on a device.
type LaneID int32

type device struct {
	Device
	index      int32
	fair       [2]fairq.Queue // by class
	pending    iheap.Heap     // ready foreground queues that demand nothing yet, by latest start
	held       iheap.Heap     // queues held for their batch timeout whose limits or named targets end that, by latest start
	blocks     iheap.Heap     // ready foreground queues, the one with the dearest next batch first
	state      cost.Device    // as far as it changes what executions cost
	memory     deviceMemory
	cap        batchCap
	guard      guard
	work       time.Duration // that the waiting foreground tasks are expected to cost
	foreground int           // tasks of class foreground that wait
	inFlight   int           // lanes with a batch
	since      Time          // when the in-flight set last changed
	turn       Time          // before it no batch is started beside those in flight; see setTurn
	free       Time          // as of the last pick, when what is started has the device to itself
	busy       time.Duration // time with at least one batch in flight
	looked     uint64        // revision of cap and state as of which held queues were last looked at
}

// class separates work that someone waits for from work that uses what is left.
type class uint8

const (
	foreground class = iota
	background
)

// stage is where a queue stands on its way to the device.
type stage uint8

const (
	resting   stage = iota // no batch may start
	pending                // a batch may start, but nothing is lost by letting others go first
	demanding              // the batch is full, or must start soon to meet its target: now fairness is owed
)

func (s stage) String() string { return [...]string{"resting", "pending", "demanding"}[s] }

type lane struct {
	device  int32
	running bool
	queue   *queue
	class   class
	started Time
	due     Time // when its first task wants to be answered
	est     cost.Estimate
	share   time.Duration // of the device's busy time
	batch   BatchEvent    // what the observer will be told
}

type flow struct {
	id     FlowID
	name   string
	device *device
	weight float64
	served time.Duration // device time, ever
	work   time.Duration // that its waiting foreground tasks are expected to cost
	demand [2]iheap.Heap // local ids of its demanding queues, by when they are due
	first  [2]*queue     // the one that is due first, nil if there is none
	locals []*queue      // by local id, nil when free
	recent recent
}

type version struct {
	id       VersionID
	name     string
	flow     *flow
	settings Settings
	revision uint64            // counts changes of settings
	queues   map[string]*queue // by Task.Key
	latest   *queue            // the one asked for last, which is the likeliest to be asked for next; may be nil
	shapes   map[string]*shape // by Task.ShapeKey
	previous map[string]*shape // what is known of another version's costs, to begin with
	queued   [2]int            // tasks with rows that were not started, by class
	live     int               // tasks that have not ended
	account  *Account
	proven   int // rows of the largest execution that ran well: its engine has the memory that it needs
	closing  bool
}

// shape is what is known of the cost of one shape of a version. Its queues share it.
type shape struct {
	cost.Curve
	memory memoryBound
	queues []*queue // live ones of this shape, by id
	used   uint64   // when a queue asked for it last, in tasks ever submitted
	// refusing is since when tasks are refused on its estimates alone, with nothing measured in between; Never: not so.
	refusing Time
}

func (s *shape) place(q *queue) int {
	i, _ := slices.BinarySearchFunc(s.queues, q.id, func(other *queue, id int32) int { return int(other.id - id) })
	return i
}

func (s *shape) join(q *queue) { s.queues = slices.Insert(s.queues, s.place(q), q) }

func (s *shape) leave(q *queue) { i := s.place(q); s.queues = slices.Delete(s.queues, i, i+1) }

type queue struct {
	id         int32
	local      int32 // its id within the flow
	version    *version
	flow       *flow   // of the version
	device     *device // of the flow
	key        string
	shape      *shape
	ring       ring
	foreground int // tasks of that class in the ring; they come before the others
	waiting    int // rows in the ring that were not started
	running    int // batches in flight
	// Of the tasks in the ring, kept only where there is a batch timeout: the earliest arrival, the earliest limit, the earliest time
	// by which a batch is to end for a target that somebody named, and whether rows of one were started already.
	oldest, soonest, wanted Time
	begun                   bool
	unheld                  bool // by a pick that could not wait for the end of the batch timeout; until a batch is started
	idleAt                  Time // when it last became empty, to choose what to evict
	touched                 bool // in Core.touched

	stage  stage
	class  class         // unless resting
	served bool          // a batch was started since the last refresh
	cost   time.Duration // of the next batch, as of the last refresh
	due    Time          // when its first task wants to be answered, as of the last refresh
	latest Time          // by when the batch must start for that, as of the last refresh
	work   time.Duration // that its waiting foreground tasks are expected to cost

	// What a full batch is, as of this sum of the device's revisions. See fullBatch.
	asOf     uint64 // 0: what is known of the costs, or the settings, have changed since
	most     int
	full     cost.Estimate // of most rows
	fullHigh time.Duration
	rowCost  time.Duration // of a batch of one row
	ownCost  time.Duration // of a full batch if the device had no cap
	bound    bool          // one more row would cost more than the budget
	learning bool          // first measurements of the shape are being taken
}

// NewCore returns a core with the devices of the configuration and nothing to do.
func NewCore(cfg Config) (*Core, error) {
	if len(cfg.Devices) == 0 {
		return nil, fmt.Errorf("sharedsched: no device configured; name at least one")
	}
	c := &Core{
		slab: newSlab(), variant: cfg.Variant, maxQueuedBytes: cmp.Or(cfg.MaxQueuedBytes, 1<<30), accounts: map[[2]string]*Account{},
	}
	for i, d := range cfg.Devices {
		if d.Lanes < 1 {
			return nil, fmt.Errorf("sharedsched: device %q has %d lanes, must have at least 1", d.Name, d.Lanes)
		}
		c.devices = append(c.devices, device{Device: d, index: int32(i)})
		c.devices[i].fair[foreground].Window = fairq.Tag(cfg.FairnessWindow)
		for range d.Lanes {
			c.lanes = append(c.lanes, lane{device: int32(i)})
		}
	}
	return c, nil
}

// AddFlow adds a flow on the named device.
func (c *Core) AddFlow(name, deviceName string, weight float64) (FlowID, error) {
	if !(weight >= fairq.MinWeight && weight <= fairq.MaxWeight) {
		return 0, fmt.Errorf("sharedsched: flow %q has weight %v, must be %v to %v", name, weight, fairq.MinWeight, float64(fairq.MaxWeight))
	}
	for i := range c.devices {
		d := &c.devices[i]
		if d.Name != deviceName {
			continue
		}
		id := FlowID(len(c.flows))
		if n := len(c.freeFlows); n > 0 {
			id = c.freeFlows[n-1]
			c.freeFlows = c.freeFlows[:n-1]
		} else {
			c.flows = append(c.flows, nil)
		}
		c.flows[id] = &flow{id: id, name: name, device: d, weight: weight}
		for k := range d.fair {
			d.fair[k].Set(fairq.Flow(id), weight)
		}
		return id, nil
	}
	return 0, fmt.Errorf("sharedsched: flow %q asks for device %q, which is not configured", name, deviceName)
}

// RemoveFlow forgets a flow whose versions are gone. Its id may name another flow afterwards.
func (c *Core) RemoveFlow(f FlowID) {
	d := c.flows[f].device
	for k := range d.fair {
		d.fair[k].Remove(fairq.Flow(f))
	}
	c.flows[f] = nil
	c.freeFlows = append(c.freeFlows, f)
}

// AddVersion adds a version whose tasks are charged to flow f.
func (c *Core) AddVersion(name string, f FlowID, s Settings) (VersionID, error) {
	if err := s.validate(); err != nil {
		return 0, fmt.Errorf("%w (version %s)", err, name)
	}
	if f < 0 || int(f) >= len(c.flows) || c.flows[f] == nil {
		return 0, fmt.Errorf("sharedsched: version %s is to belong to flow %d, which does not exist", name, f)
	}
	id := VersionID(len(c.versions))
	c.versions = append(c.versions, &version{
		id: id, name: name, flow: c.flows[f], settings: s, account: c.account(name, c.flows[f].device.Name),
		queues: map[string]*queue{}, shapes: map[string]*shape{},
	})
	return id, nil
}

// Inherit has a version begin with what is known of the costs of another on the same device, until its own are measured. moved: it
// is the other one under a new id, with the same engine, which has the memory that it took; a new engine has yet to take it.
func (c *Core) Inherit(id, from VersionID, moved bool) {
	v, p := c.version(id), c.version(from)
	if v == nil || p == nil || v.flow.device != p.flow.device {
		return
	}
	v.previous = p.shapes
	if moved {
		v.proven = max(v.proven, p.proven)
	}
	// In which order shapes inherit makes no difference.
	for key, s := range v.shapes {
		if q := p.shapes[key]; q != nil {
			s.Inherit(&q.Curve)
		}
	}
	c.touchVersion(v)
}

// Observe takes what telemetry says about a device. What executions cost is expected to change with it, and how large they may be.
func (c *Core) Observe(now Time, device string, s cost.Sample) {
	for i := range c.devices {
		d := &c.devices[i]
		if d.Name != device {
			continue
		}
		if s.Expired {
			s.MemoryFree, s.MemoryTotal = 0, 0
		}
		c.setMemory(d, deviceMemory{s.MemoryFree, s.MemoryTotal})
		before := d.state.Revision()
		d.state.Observe(s)
		if d.state.Revision() == before {
			continue
		}
		for _, v := range c.versions {
			if v != nil && v.flow.device == d {
				c.touchVersion(v)
			}
		}
	}
	c.refreshTouched(now)
}

// Configure changes a version's settings from the next batch on.
func (c *Core) Configure(now Time, id VersionID, s Settings) error {
	v := c.version(id)
	if v == nil {
		return ErrRemoved
	}
	if err := s.validate(); err != nil {
		return fmt.Errorf("%w (version %s)", err, v.name)
	}
	v.settings = s
	v.revision++
	c.touchVersion(v)
	c.refreshTouched(now)
	return nil
}

// RemoveVersion refuses further tasks of a version and runs what waits without waiting for batches to fill. Once its last task
// has ended an action of kind VersionGone says so.
func (c *Core) RemoveVersion(now Time, id VersionID, acts []Action) []Action {
	v := c.version(id)
	if v == nil || v.closing {
		return acts
	}
	v.closing = true
	c.touchVersion(v)
	c.refreshTouched(now)
	return c.retire(v, acts)
}

// Hurry ends all holding of batches for their timeouts, now and from now on, as befits a server that is about to stop: tasks are
// admitted as before.
func (c *Core) Hurry(now Time) {
	c.hurry = true
	c.refreshAll(now)
}

// Drain refuses further tasks of every version and runs what waits without waiting for batches to fill.
func (c *Core) Drain(now Time) {
	c.draining = true
	c.refreshAll(now)
}

func (c *Core) refreshAll(now Time) {
	for _, v := range c.versions {
		if v != nil {
			c.touchVersion(v)
		}
	}
	c.refreshTouched(now)
}

// Live returns the number of tasks that have not ended.
func (c *Core) Live() int { return c.live }

func (c *Core) version(id VersionID) *version {
	if id < 0 || int(id) >= len(c.versions) {
		return nil
	}
	return c.versions[id]
}

// retire forgets a closing version whose last task has ended.
func (c *Core) retire(v *version, acts []Action) []Action {
	if !v.closing || v.live > 0 || c.versions[v.id] == nil {
		return acts
	}
	// Order does not matter here: every queue is empty and none is left.
	for _, q := range v.queues {
		c.dropQueue(q)
	}
	c.versions[v.id] = nil
	return append(acts, Action{Kind: VersionGone, Version: v.id})
}

// queueFor returns the version's queue for a key, a new one if need be. It returns nil when maxQueues keys have work.
func (c *Core) queueFor(v *version, t *Task) *queue {
	if v.latest != nil && v.latest.key == t.Key {
		return v.latest
	}
	if q := v.queues[t.Key]; q != nil {
		v.latest = q
		return q
	}
	if len(v.queues) == maxQueues && !c.evictQueue(v) {
		return nil
	}
	d := v.flow.device
	q := &queue{version: v, flow: v.flow, device: d, key: t.Key, shape: v.shape(t.ShapeKey, c.seq, &d.state)}
	if n := len(c.freeIDs); n > 0 {
		q.id = c.freeIDs[n-1]
		c.freeIDs = c.freeIDs[:n-1]
		c.queues[q.id] = q
	} else {
		q.id = int32(len(c.queues))
		c.queues = append(c.queues, q)
	}
	q.shape.join(q)
	q.local = v.flow.take(q)
	v.queues[q.key] = q
	return q
}

// evictQueue drops the queue of v that has been idle for longest.
func (c *Core) evictQueue(v *version) bool {
	var victim *queue
	// The choice is unique (ties go to the lower id), so the order of iteration does not matter.
	for _, q := range v.queues {
		if q.ring.n > 0 || q.running > 0 {
			continue
		}
		if victim == nil || q.idleAt < victim.idleAt || (q.idleAt == victim.idleAt && q.id < victim.id) {
			victim = q
		}
	}
	if victim == nil {
		return false
	}
	c.dropQueue(victim)
	return true
}

func (c *Core) dropQueue(q *queue) {
	v := q.version
	delete(v.queues, q.key)
	v.latest = nil
	q.shape.leave(q)
	v.flow.locals[q.local] = nil
	c.queues[q.id] = nil
	c.freeIDs = append(c.freeIDs, q.id)
}

func (f *flow) take(q *queue) int32 {
	i := slices.Index(f.locals, nil)
	if i < 0 {
		i = len(f.locals)
		f.locals = append(f.locals, nil)
	}
	f.locals[i] = q
	return int32(i)
}

// shape returns what is known of the cost of a shape. It outlives the shape's queues, for it is dear to learn; past maxQueues of
// them the one that was not asked for longest and has no queue is forgotten.
func (v *version) shape(key string, now uint64, state *cost.Device) *shape {
	if s, ok := v.shapes[key]; ok {
		s.used = now
		return s
	}
	if len(v.shapes) >= maxQueues {
		victim := ""
		var oldest *shape
		// Of queues there are fewer than maxQueues now, so that some shape has none. No two were asked for by the same task, so
		// that the order of iteration does not matter.
		for k, s := range v.shapes {
			if len(s.queues) == 0 && (oldest == nil || s.used < oldest.used) {
				victim, oldest = k, s
			}
		}
		delete(v.shapes, victim)
	}
	s := &shape{refusing: Never, used: now}
	s.On(state)
	s.Of(int32(v.id))
	if p := v.previous[key]; p != nil {
		s.Inherit(&p.Curve)
	}
	v.shapes[strings.Clone(key)] = s // the caller's may be part of a longer one
	return s
}
