package sharedsched

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

// device is the state of a Device. It is there from EventAddDevice to EventRemoveDevice. Batches that run then still
// end on it, and its flows point to it until they are removed; nothing else does.
type device struct {
	Device
	lanes      []*lane
	identities map[string]*flow // of identities that were asked of
	removed    bool
	fair       [2]fairq.Queue // by class: flows that demand service; of foreground work those beyond their share
	within     iheap.Heap     // of foreground work those within it, by when they are due
	pending    iheap.Heap     // ready foreground queues that demand nothing yet, by latest start
	held       iheap.Heap     // queues held for a batch timeout that limits or named targets end, by latest start
	blocks     iheap.Heap     // ready foreground queues, the one with the dearest next batch first
	short      iheap.Heap     // the ones among them that a kept lane is for, by when they are due
	state      cost.Device    // as far as it changes the cost of executions
	memory     deviceMemory
	shares     shares
	cap        batchCap
	guard      guard
	work       time.Duration // expected cost of the waiting foreground tasks
	foreground int           // tasks of class foreground that wait
	inFlight   int           // lanes with a batch
	since      Time          // when the in-flight set last changed
	turn       Time          // before it no batch is started while others are in flight, but beside; see setTurn
	awaited    *flow         // its batch of tasks that named no time ended last; it may be gone
	waits      Time          // it waits for its callers since then,
	until      Time          // and until then, as turn says; 0: it does not
	gathers    *queue        // for whose callers it waits until turn; nil: it does not
	end        Time          // when those in flight have most likely ended; of a device with a turn
	free       Time          // as of the last pick: when a batch started then has the device to itself
	busy       time.Duration // time of its lanes with a batch in flight; that of lanes that share its time counts once
	ran        Time          // when an execution with a measured device time ended last
	full       largest       // expected costs of full batches of queues that batches were started of; for Load
	looked     uint64        // revision of cap and state when held queues were last looked at
}

// device returns the one of that name, nil if there is none.
func (c *Core) device(name string) *device {
	if i := slices.IndexFunc(c.devices, func(d *device) bool { return d.Name == name }); i >= 0 {
		return c.devices[i]
	}
	return nil
}

// addDevice carries out EventAddDevice.
func (c *Core) addDevice(added Device) (first LaneID, err error) {
	switch {
	case added.Lanes < 1:
		return 0, fmt.Errorf("sharedsched: device %q has %d lanes, must have at least 1", added.Name, added.Lanes)
	case c.device(added.Name) != nil:
		return 0, fmt.Errorf("sharedsched: there is a device %q already", added.Name)
	}
	d := &device{Device: added, identities: map[string]*flow{}}
	first = c.freeLanes(added.Lanes)
	for id := first; id < first+LaneID(added.Lanes); id++ {
		c.lanes[id] = &lane{id: id, device: d}
		d.lanes = append(d.lanes, c.lanes[id])
	}
	c.devices = append(c.devices, d)
	return first, nil
}

// freeLanes returns the first of n ids of lanes that follow each other and name none: ids of devices that are gone
// where there are enough, so that devices may come and go for ever.
func (c *Core) freeLanes(n int) LaneID {
	free := 0
	for i, l := range c.lanes {
		if l != nil {
			free = 0
		} else if free++; free == n {
			return LaneID(i + 1 - n)
		}
	}
	first := len(c.lanes) - free
	c.lanes = append(c.lanes, make([]*lane, n-free)...)
	return LaneID(first)
}

// removeDevice carries out EventRemoveDevice.
func (c *Core) removeDevice(now Time, name string, out *Answer) error {
	d := c.device(name)
	if d == nil {
		return fmt.Errorf("sharedsched: there is no device %q to remove", name)
	}
	// A search for devices finds it no longer. Lanes with a batch, versions with a task, and flows still point to it.
	d.removed = true
	c.devices = slices.DeleteFunc(c.devices, func(other *device) bool { return other == d })
	for _, l := range d.lanes {
		if !l.running {
			c.lanes[l.id] = nil
		}
	}
	for _, v := range c.versions {
		if v != nil && v.flow.device == d {
			v.closing = true
		}
	}
	c.stopAll(now, EndRemoved, func(q *queue) bool { return q.device == d }, out)
	// Versions without a task that waited or runs are gone now; the others go with the end of their last task.
	for _, v := range c.versions {
		if v != nil && v.flow.device == d {
			c.retire(v, out)
		}
	}
	for _, f := range c.flows {
		if f != nil && f.device == d {
			c.forgetRemoved(f)
		}
	}
	return nil
}

// observe carries out EventObserve.
func (c *Core) observe(now Time, name string, s cost.Sample) {
	d := c.device(name)
	if d == nil {
		return
	}
	if s.Expired {
		s.MemoryFree, s.MemoryTotal = 0, 0
	}
	c.setMemory(d, deviceMemory{s.MemoryFree, s.MemoryTotal})
	before := d.state.Revision()
	d.state.Observe(s)
	if d.state.Revision() != before {
		c.touchDevice(d)
	}
	c.refreshTouched(now)
}

// Waits returns by how much executions of the latest second took longer because they waited, on the device where that
// is most; see [cost.Device].
func (c *Core) Waits(now Time) float64 {
	most := 1.
	for _, d := range c.devices {
		if now.Sub(d.ran) < time.Second {
			most = max(most, d.state.Waits())
		}
	}
	return most
}

// hasWork reports whether a pick would find a queue, or a task to give up.
func (c *Core) hasWork(d *device) bool {
	if d.demanding(foreground) > 0 || d.pending.Len() > 0 {
		return d.short.Len() > 0 || !c.keepsLast(d)
	}
	return d.foreground == 0 && d.fair[background].Len() > 0
}

// demanding returns how many flows demand service in a class.
func (d *device) demanding(k class) int {
	if k == foreground {
		return d.fair[k].Len() + d.within.Len()
	}
	return d.fair[k].Len()
}

// block returns the cost of the dearest batch that may start next on the device: a queue that is not served now may
// have to wait that long.
func (d *device) block() time.Duration {
	_, key, _ := d.blocks.Min()
	return -time.Duration(key)
}

// accrue charges the batches in flight on the device for the time since the last change: each for all of it, or, where
// lanes share the device's time, for an equal part. The shares sum to the busy time: a remainder of nanoseconds goes to
// the first.
func (d *device) accrue(now Time) {
	passed := now.Sub(d.since)
	d.since = now
	if d.inFlight == 0 {
		return
	}
	if !d.shared() {
		passed *= time.Duration(d.inFlight)
	}
	d.busy += passed
	each := passed / time.Duration(d.inFlight)
	rest := passed - each*time.Duration(d.inFlight)
	for _, l := range d.lanes {
		if l.running {
			l.share += each + rest
			rest = 0
		}
	}
}
