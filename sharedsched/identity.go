package sharedsched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weftserve/weft/sharedsched/fairq"
)

// A task may name an identity, such as a tenant of the server: it is then charged to the flow of that identity instead
// of its version's. An identity has one flow on a device for all versions there. A queue belongs to one flow, so that
// the tasks of one identity stand in no queue of another's, and what bounds the waiting tasks, the queues and the known
// shapes of a version bounds those of each flow in it (tenancy). Costs stay the version's: nothing is learnt twice.
//
// Flows of identities are made when a task first names them, and are forgotten when a device has maxIdentities of them
// and another one comes: first the one that has rested for longest. One that has work is never forgotten: where all
// have work, the tasks of further identities are charged to the flow of their version.

// tenancy counts what a flow has in a version.
type tenancy struct {
	queued [2]int // tasks with rows that were not started, by class
	queues int
	shapes int // that were first asked for by this flow
}

// isFull reports whether as many tasks of a class wait as may.
func (t *tenancy) isFull(k class, s *Settings) bool { return t.queued[k] >= s.QueueBound() }

// tenancy returns what the flow has in a version.
func (f *flow) tenancy(v *version) *tenancy {
	t := f.tenancies[v.id]
	if t == nil {
		t = &tenancy{}
		f.tenancies[v.id] = t
	}
	return t
}

// flowOf returns the flow that a task of an identity would be charged to now; nil: one that is still to be made.
func (c *Core) flowOf(v *version, identity string) *flow {
	d := v.flow.device
	if identity == "" {
		return v.flow
	}
	if f := d.identities[identity]; f != nil {
		return f
	}
	if len(d.identities) >= maxIdentities && c.idlest(d) == nil {
		return v.flow
	}
	return nil
}

// flowFor returns the flow that a task is charged to, a new one if need be. The error says that the weight is out of
// bounds.
func (c *Core) flowFor(v *version, t *Task) (*flow, error) {
	f := c.flowOf(v, t.Identity)
	if f == v.flow {
		return f, nil
	}
	weight := cmp.Or(t.Weight, 1)
	if f != nil && f.weight == weight {
		return f, nil
	}
	name := "identity " + t.Identity
	if err := checkWeight(name, weight); err != nil {
		return nil, err
	}
	d := v.flow.device
	if f != nil {
		c.setWeight(f, weight)
		return f, nil
	}
	if len(d.identities) >= maxIdentities {
		c.forget(c.idlest(d))
	}
	f = c.newFlow(name, d, weight)
	f.identity = strings.Clone(t.Identity) // the caller's may be part of a longer one
	d.identities[f.identity] = f
	return f, nil
}

// checkWeight returns an error where the weight of a flow is out of bounds.
func checkWeight(name string, weight float64) error {
	if weight >= fairq.MinWeight && weight <= fairq.MaxWeight {
		return nil
	}
	return fmt.Errorf("sharedsched: flow %q has weight %v, must be %v to %v", name, weight, fairq.MinWeight,
		float64(fairq.MaxWeight))
}

// idlest returns the flow of an identity on the device that has nothing waiting or running, and that was asked of
// longest ago; nil if there is none.
func (c *Core) idlest(d *device) (victim *flow) {
	oldest := Time(math.MaxInt64)
	for _, f := range c.flows {
		if f != nil && f.device == d && f.identity != "" && f.recent.seen < oldest && f.isIdle() {
			victim, oldest = f, f.recent.seen
		}
	}
	return victim
}

// isIdle reports whether nothing of the flow waits or runs.
func (f *flow) isIdle() bool {
	for _, q := range f.locals {
		if q != nil && !q.isIdle() {
			return false
		}
	}
	return true
}

// forget forgets the flow of an identity, which is idle, and its queues.
func (c *Core) forget(f *flow) {
	delete(f.device.identities, f.identity)
	for _, q := range f.locals {
		if q != nil {
			c.dropQueue(q)
		}
	}
	c.removeFlow(f.id)
}

// forgetRemoved forgets the flow of an identity if its device was removed and none of its queues is left.
func (c *Core) forgetRemoved(f *flow) {
	if f.identity != "" && f.device.removed && f.device.identities[f.identity] == f &&
		!f.hasQueue() {
		c.forget(f)
	}
}

// hasQueue reports whether the flow has a queue.
func (f *flow) hasQueue() bool {
	return slices.ContainsFunc(f.locals, func(q *queue) bool { return q != nil })
}
