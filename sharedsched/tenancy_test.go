package sharedsched

import "fmt"

// checkTenancies compares what the flows have in each version with a recount, and with the bounds.
func (c *Core) checkTenancies(queued map[*tenancy][2]int) error {
	queues, shapes, idle := map[*tenancy]int{}, map[*tenancy]int{}, map[*version]int{}
	for _, q := range c.queues {
		if q == nil {
			continue
		}
		if q.version.queues[address{q.flow, q.key}] != q || q.flow.tenancies[q.version.id] != q.tenancy ||
			q.flow.locals[q.local] != q {
			return fmt.Errorf("queue %d of %s does not stand where it belongs", q.id, q.flow.name)
		}
		if q.flow != q.version.flow && q.flow.identity == "" {
			return fmt.Errorf("queue %d of version %s belongs to the flow %s", q.id, q.version.name, q.flow.name)
		}
		if g := q.kin; q.version.kin[q.key] != g || g.queues[q.place] != q ||
			g.n > 1 && !q.touched && g.waiting.Has(q.place) != (q.foreground > 0) {
			return fmt.Errorf("queue %d of %s, with %d foreground tasks, is not known to its %d kin", q.id, q.flow.name,
				q.foreground, g.n)
		}
		queues[q.tenancy]++
		if q.isIdle() {
			idle[q.version]++
		}
	}
	for _, v := range c.versions {
		if v == nil {
			continue
		}
		for _, s := range v.shapes {
			shapes[s.by]++
		}
		if idle[v] > maxOfAll || len(v.shapes) > maxOfAll && len(v.shapes) > len(v.queues) {
			return fmt.Errorf("version %s has %d idle queues of %d, and %d shapes", v.name, idle[v], len(v.queues),
				len(v.shapes))
		}
	}
	for _, f := range c.flows {
		if f == nil {
			continue
		}
		for id, t := range f.tenancies {
			if t.queued != queued[t] || t.queues != queues[t] || t.shapes != shapes[t] || t.queues > maxQueues {
				return fmt.Errorf("%s has %+v in version %d, a recount gives %v queued in %d queues and %d shapes", f.name, *t,
					id, queued[t], queues[t], shapes[t])
			}
			if c.version(id) == nil {
				return fmt.Errorf("%s has %+v in version %d, which is gone", f.name, *t, id)
			}
		}
	}
	return nil
}

// checkIdentities checks that each device knows the flows of its identities, and no others.
func (c *Core) checkIdentities() error {
	known := map[*device]int{}
	for _, f := range c.flows {
		if f == nil || f.identity == "" {
			continue
		}
		known[f.device]++
		if f.device.identities[f.identity] != f || f.device.removed && f.isIdle() && !f.hasQueue() {
			return fmt.Errorf("%s on %s is not known there, or should be forgotten", f.name, f.device.Name)
		}
	}
	for _, d := range c.devices {
		if len(d.identities) != known[d] || known[d] > maxIdentities {
			return fmt.Errorf("%s knows %d identities, %d have flows", d.Name, len(d.identities), known[d])
		}
	}
	return nil
}
