package sharedsched

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

// FlowID names a flow: the unit of fairness.
type FlowID int32

// flow is the unit of fairness: of a version, of all versions of a model, or of an identity. It demands service in a
// class while one of its queues demands it there. Its device then knows when the flow is due, which is when the first
// of these queues is (tell).
type flow struct {
	id     FlowID
	name   string
	device *device
	// identity is whose it is; "": of a version, or of all versions of a model.
	identity  string
	tenancies map[VersionID]*tenancy // what it has in each version

	weight  float64
	served  time.Duration // device time, ever
	work    time.Duration // expected cost of its waiting foreground tasks
	demand  [2]iheap.Heap // local ids of its demanding queues, by when they are due
	first   [2]*queue     // the one that is due first, nil if there is none
	locals  []*queue      // by local id, nil when free
	recent  recent
	callers callers

	beyond bool // it asks for more than its share (share.go)
	since  Time // the first look that found it beyond, without a gap of more than lately since
	last   Time // the latest one

	saved  float64 // seconds of device time that it did not ask for, of its part
	looked Time    // at it, last
	came   Time    // its first task since then; before that, if there was none
}

// addFlow carries out EventAddFlow.
func (c *Core) addFlow(name, deviceName string, weight float64) (FlowID, error) {
	if err := checkWeight(name, weight); err != nil {
		return 0, err
	}
	d := c.device(deviceName)
	if d == nil {
		return 0, fmt.Errorf("sharedsched: flow %q asks for device %q, which is not configured", name, deviceName)
	}
	return c.newFlow(name, d, weight).id, nil
}

// newFlow adds a flow.
func (c *Core) newFlow(name string, d *device, weight float64) *flow {
	id := FlowID(len(c.flows))
	if n := len(c.freeFlows); n > 0 {
		id = c.freeFlows[n-1]
		c.freeFlows = c.freeFlows[:n-1]
	} else {
		c.flows = append(c.flows, nil)
	}
	f := &flow{id: id, name: name, device: d, tenancies: map[VersionID]*tenancy{}}
	c.flows[id] = f
	c.setWeight(f, weight)
	return f
}

// setWeight gives the flow another weight from now on.
func (c *Core) setWeight(f *flow, weight float64) {
	f.weight = weight
	for k := range f.device.fair {
		f.device.fair[k].Set(fairq.Flow(f.id), weight)
	}
}

// removeFlow carries out EventRemoveFlow.
func (c *Core) removeFlow(f FlowID) {
	d := c.flows[f].device
	for k := range d.fair {
		d.fair[k].Remove(fairq.Flow(f))
	}
	d.within.Remove(int32(f))
	c.flows[f] = nil
	c.freeFlows = append(c.freeFlows, f)
}

// take gives a queue the least local id that is free, so that the heaps of the flow stay as small as it has queues.
func (f *flow) take(q *queue) int32 { return takePlace(&f.locals, q) }

// takePlace puts a queue into the first free place, and returns that.
func takePlace(places *[]*queue, q *queue) int32 {
	i := slices.Index(*places, nil)
	if i < 0 {
		i = len(*places)
		*places = append(*places, nil)
	}
	(*places)[i] = q
	return int32(i)
}

// tell notifies the device whether the flow demands service, and by when.
func (c *Core) tell(f *flow, k class) {
	d := f.device
	local, due, demands := f.demand[k].Min()
	f.first[k] = nil
	if demands {
		f.first[k] = f.locals[local]
	}
	within := k == foreground && !f.beyond
	if demands && !within {
		d.fair[k].Demand(fairq.Flow(f.id), due)
	} else {
		d.fair[k].Rest(fairq.Flow(f.id))
	}
	if k == foreground {
		if demands && within {
			d.within.Set(int32(f.id), due)
		} else {
			d.within.Remove(int32(f.id))
		}
	}
}
