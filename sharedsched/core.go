package sharedsched

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/weftserve/weft/sharedsched/iheap"
)

// Core is the scheduler as a value: Step takes the present time and an event, changes the state, and appends the
// actions to carry out to those of the caller. It owns no goroutine, reads no clock, draws no random number, and no
// decision iterates a map, so the same events at the same times always lead to the same decisions. It is not safe for
// concurrent use: package shell guards it with a mutex.
//
// Step is the only way in. HasWork, Live, Load, Names, NextWake, Room, Settings and State only read: they change
// nothing that a caller could notice. The functions that Step calls are in files named after a rule or a type: admit,
// pick, form, drop, settle and so on; policy.go has every number.
//
// # Invariants
//
// They hold between any two events; the tests check them after each one. A queue that changed is noted (touch), and
// brought up to date with all others at the end of the event, or before the next pick at the latest (refreshTouched).
//
//   - Every admitted task ends exactly once, by exactly one TaskEnded action.
//   - No task of a version that was expelled waits, and none starts; the same holds for all versions of a device that
//     was removed.
//   - A lane is there while its device is there, and for as long as a batch runs on it.
//   - A task is in its queue's ring exactly if it has rows that were not started and is to start them.
//   - A queue is among the pending, or among its flow's demanding ones, exactly if its stage says so; a flow demands
//     service exactly if one of its queues does.
//   - The shares of device time of all batches sum to the device's busy time.
//   - No batch has more rows than memory suffices for, as far as is known, unless it is the least there can be.
//   - Counts (waiting rows, queued tasks, queued bytes, foreground tasks) equal a recount.
//   - Virtual time never decreases, but when all tags begin anew (fairq).
type Core struct {
	slab                            // of tasks
	devices  []*device              // in the order in which they were added
	lanes    []*lane                // by LaneID, of all devices; nil when free
	flows    []*flow                // by FlowID; nil once removed
	versions []*version             // by VersionID; nil once removed
	queues   []*queue               // by queue id; nil when free
	accounts map[[2]string]*Account // by name of a version and device

	freeFlows []FlowID // that may be used again
	freeIDs   []int32  // of queues, as well

	limits iheap.Lazy // of tasks that wait, by Handle; tasks that have started leave
	holds  iheap.Heap // queues that wait for their batch timeout, by its end

	variant        Variant
	maxQueuedBytes int64
	queuedBytes    int64
	seq, batches   uint64      // tasks ever submitted, and batches ever started
	bounded        []*shape    // whose executions ran out of memory lately
	passed         []int32     // by takeAlong
	candidates     []candidate // by giveUp
	touched        []*queue    // queues that changed in the present event and are to be refreshed at its end
	hurrying       bool        // no batch is held for its timeout
	draining       bool
	log            decisionLog
}

// NewCore returns a core with the devices of the configuration and nothing to do.
func NewCore(cfg Config) (*Core, error) {
	if len(cfg.Devices) == 0 {
		return nil, fmt.Errorf("sharedsched: no device configured; name at least one")
	}
	c := &Core{
		slab: newSlab(), accounts: map[[2]string]*Account{},
		variant: cfg.Variant, maxQueuedBytes: cmp.Or(cfg.MaxQueuedBytes, defaultQueuedBytes),
	}
	for _, d := range cfg.Devices {
		if _, err := c.addDevice(d); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Step takes the event that happened at a time, which is not before that of the previous event, and sets the answer in
// out. Each kind of event names the fields it reads and answers, and its errors (EventKind). An event that failed has
// changed nothing, except that the work of a refused task counts as asked for, and its identity is known.
func (c *Core) Step(now Time, ev *Event, out *Answer) (err error) {
	switch ev.Kind {
	// The life of a task: it is admitted, its rows are put into batches, these end; or it is cancelled, or time runs
	// out.
	case EventSubmit:
		err = c.submit(now, ev, out)
	case EventCancel:
		out.OK = c.cancel(now, ev.Handle, out)
	case EventNext:
		out.OK = c.next(now, ev.Lane, ev.Batch, out)
	case EventSettle:
		c.settle(now, ev, out)
	case EventAdvance:
		c.advance(now, out)
	default:
		err = c.rearrange(now, ev, out)
	}
	return err
}

// rearrange takes the events that are rare: of devices, flows and versions, and of shutdown. Names are copied, so that
// an event need not outlive the call.
func (c *Core) rearrange(now Time, ev *Event, out *Answer) (err error) {
	switch ev.Kind {
	case EventAddDevice:
		out.Lane, err = c.addDevice(*ev.Added)
	case EventRemoveDevice:
		err = c.removeDevice(now, strings.Clone(ev.Device), out)
	case EventAddFlow:
		out.Flow, err = c.addFlow(strings.Clone(ev.Name), strings.Clone(ev.Device), ev.Weight)
	case EventRemoveFlow:
		c.removeFlow(ev.Flow)
	case EventAddVersion:
		out.Version, err = c.addVersion(strings.Clone(ev.Name), ev.Flow, *ev.Settings)
	case EventInherit:
		c.inherit(ev.Version, ev.From, ev.Moved)
	case EventConfigure:
		err = c.configure(now, ev.Version, *ev.Settings)
	case EventRemoveVersion:
		c.removeVersion(now, ev.Version, out)
	case EventExpel:
		c.expel(now, ev.Version, out)
	case EventObserve:
		c.observe(now, ev.Device, *ev.Sample)
	case EventHurry:
		c.hurry(now)
	case EventDrain:
		c.drain(now)
	case EventClose:
		c.close(now, out)
	default:
		err = fmt.Errorf("sharedsched: there is no event of kind %d", ev.Kind)
	}
	return err
}

// Live returns the number of tasks that have not ended.
func (c *Core) Live() int { return c.live }

// Room returns how many more foreground tasks of a version and an identity, "" for none, may wait. There is no bound
// where none is admitted any more, for then no caller needs to wait to learn so.
func (c *Core) Room(id VersionID, identity string) int {
	v := c.version(id)
	if v == nil || v.closing || c.draining {
		return math.MaxInt
	}
	bound := v.settings.QueueBound()
	if f := c.flowOf(v, identity); f != nil && f.tenancies[id] != nil {
		bound -= f.tenancies[id].queued[foreground]
	}
	return bound
}

// Settings returns the settings of a version, which the caller must not change; nil if the version is gone.
func (c *Core) Settings(id VersionID) *Settings {
	if v := c.version(id); v != nil {
		return &v.settings
	}
	return nil
}

// Names returns the names of a version and its device; both are empty if the version is gone.
func (c *Core) Names(id VersionID) (name, device string) {
	if v := c.version(id); v != nil {
		return v.name, v.flow.device.Name
	}
	return "", ""
}

// HasWork reports whether EventNext would find a batch for the device of the lane, or a task to give up. It is asked
// after every event, and so looks at little; batch threads are woken by it.
func (c *Core) HasWork(now Time, id LaneID) bool {
	d := c.lanes[id].device
	if d.turn > now {
		return c.beside(now, d) != nil
	}
	return c.hasWork(d)
}

// NextWake returns a time before which EventAdvance will have nothing to do if nothing else happens, or Never.
func (c *Core) NextWake() Time {
	wake := Never
	if _, at, ok := c.limits.Min(); ok {
		wake = Time(at)
	}
	if _, at, ok := c.holds.Min(); ok {
		wake = min(wake, Time(at))
	}
	for _, d := range c.devices {
		if d.turn > 0 && d.inFlight < d.Lanes && c.hasWork(d) {
			wake = min(wake, d.turn)
		}
		if d.cap.keeps && d.inFlight < d.Lanes && d.foreground > 0 { // it is kept no longer then
			wake = min(wake, d.shares.mean.at.Add(targetsFor))
		}
	}
	return wake
}

// version returns the version of that id, nil if it is gone.
func (c *Core) version(id VersionID) *version {
	if id < 0 || int(id) >= len(c.versions) {
		return nil
	}
	return c.versions[id]
}
