package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

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

// observe carries out EventObserve.
func (c *Core) observe(now Time, device string, s cost.Sample) {
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

func (d *device) hasWork() bool {
	return d.fair[foreground].Len() > 0 || d.pending.Len() > 0 || d.foreground == 0 && d.fair[background].Len() > 0
}

// block returns what the dearest batch that may start next on the device costs: so long may whoever is not served now have to wait.
func (d *device) block() time.Duration {
	_, key, _ := d.blocks.Min()
	return -time.Duration(key)
}

// accrue divides the time since the last change equally among the batches in flight on the device, so that the shares sum to
// its busy time. A remainder of nanoseconds goes to the first.
func (d *device) accrue(now Time, lanes []lane) {
	passed := now.Sub(d.since)
	d.since = now
	if d.inFlight == 0 {
		return
	}
	d.busy += passed
	each := passed / time.Duration(d.inFlight)
	rest := passed - each*time.Duration(d.inFlight)
	for i := range lanes {
		if l := &lanes[i]; l.running && l.device == d.index {
			l.share += each + rest
			rest = 0
		}
	}
}
