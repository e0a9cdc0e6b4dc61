package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
)

// Shares follow from what flows ask for, by weighted max-min fairness (Bertsekas and Gallager, Data Networks, 1987,
// section 6.5.2): a flow that asks for less than its part of the device gets what it asks for, and what it leaves is
// divided among the others by weight. A flow that asks for more than it gets so is beyond its share: where not all can
// be in time, it gives way. So it is when it is as far ahead of another that demands service as the conflict rule lets
// anybody be (pick.go), for what flows ask for swings, and of a few one is always within its share. Flows are looked at
// a few at a time, and each round over all of them works with what the one before it found; where demand stands still,
// rounds settle after a few.

// shares is what is known of the demand on a device.
type shares struct {
	// Device use per unit of weight that no flow may exceed; 0: there is enough for all.
	level float64

	next int  // flow to look at next
	at   Time // when flows were looked at last
	// The findings of the present round so far, and those of the one before it.
	round, last sums
	mean        mean
}

// mean is what was found in the mean of lately.
type mean struct {
	use, long float64 // see sums
	at        Time    // when it was followed up
}

// follow adds the findings of a round.
func (m *mean) follow(now Time, s *sums) {
	if m.long == 0 {
		m.long = s.long
	}
	part := min(1, now.Sub(m.at).Seconds()/lately.Seconds())
	m.use += float64((s.use - m.use) * part) // rounded, for replays
	m.long += float64((s.long - m.long) * part)
	m.at = now
}

// sums are the findings of a round over all flows. Use is device time per time.
type sums struct {
	use     float64
	within  float64 // of it, by flows within their share
	weights float64 // of the flows that ask for anything
	beyond  float64 // of these, of those beyond their share

	least   time.Duration // the least target that no row of any flow makes late; 0: none
	keen    time.Duration // the least that no row of its own flow does
	long    float64       // of the use, by flows whose single row takes longer than the cap would be for that
	row     time.Duration // the dearest execution of a single row
	dearest *flow         // whose that is; it may be gone by now
	exposed exposure      // the least target that is left out because of it
}

// sweep looks at the next few flows of the device. Shares and the cap follow when all have been looked at.
func (c *Core) sweep(now Time, d *device) {
	s := &d.shares
	if now.Sub(s.at) < sweepStep {
		return
	}
	s.at = now
	// The more flows there are the more are looked at, or a round would take too long.
	for range min(sweepSteps+len(d.identities)/sweepSteps, len(c.flows)) {
		if s.next >= len(c.flows) {
			s.next = 0
			s.close()
			s.mean.follow(now, &s.last)
			c.follow(d)
			return
		}
		f := c.flows[s.next]
		s.next++
		if f == nil || f.device != d {
			continue
		}
		old := now.Sub(f.recent.seen) > targetsFor
		if !old || f.work > 0 {
			c.divide(now, f, f.use(now))
		}
		if old {
			continue
		}
		target, counts := f.impatience(s.last.row)
		if counts {
			s.round.least = lesser(s.round.least, target)
		} else {
			s.expose(f, target)
		}
		if target, counts = f.impatience(f.recent.row); counts {
			s.round.keen = lesser(s.round.keen, target)
		}
	}
}

// lesser returns the lesser of two durations, where 0 stands for none.
func lesser(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// divide counts the use that a flow asks for, and decides whether it is beyond its share.
func (c *Core) divide(now Time, f *flow, use float64) {
	s := &f.device.shares
	part := s.level * f.weight
	f.save(now, part, use)
	fair := &f.device.fair[foreground]
	ahead := fair.Len() > 0 && time.Duration(fair.Lead(fairq.Flow(f.id))) >= maxTarget
	more := use > part && f.saved == 0 || ahead
	if beyond := s.level > 0 && more && !c.variant.NoShares; beyond != f.beyond {
		f.beyond = beyond
		c.tell(f, foreground)
	}
	if f.beyond {
		if now.Sub(f.last) > lately {
			f.since = now
		}
		f.last = now
	}
	r := &s.round
	if f.recent.row > r.row {
		r.row, r.dearest = f.recent.row, f
	}
	if use == 0 {
		return
	}
	r.use += use
	if s.last.keen > 0 && f.recent.row > capFor(s.last.keen) {
		r.long += use
	}
	r.weights += f.weight
	if f.beyond {
		r.beyond += f.weight
	} else {
		r.within += use
	}
}

// save follows what a flow asked for since it was looked at last. Who asks for less than half of its part of the device
// saves what is left of that half, and spends it when it asks for more than its part: a tenant who comes in bursts, and
// asks for no more than is his in the long run, is no flood. Nothing is saved of a device that is not contended.
func (f *flow) save(now Time, part, use float64) {
	if f.looked > 0 && part > 0 {
		more := min(part-use, 0) + max(part/savedPart-use, 0)
		// Where nobody looked for longer it had rested until its next task came.
		passed := now.Sub(f.looked)
		known := min(passed, askedFor)
		if f.came > f.looked {
			known = max(known, now.Sub(f.came))
		}
		f.saved += float64(more*known.Seconds()) + float64(part/savedPart*(passed-known).Seconds()) // rounded, for replays
		f.saved = min(max(f.saved, 0), part*lately.Seconds())
	}
	f.looked = now
}

// close ends a round: the level follows from what it found.
func (s *shares) close() {
	s.last, s.round = s.round, sums{}
	switch l := &s.last; {
	case l.use <= surplus:
		s.level = 0
	case l.beyond > 0:
		s.level = max((1-l.within)/l.beyond, 1/l.weights)
	default:
		s.level = 1 / l.weights
	}
}

// use returns the part of the device that a flow asks for. Where it has come back not long ago, that is since then;
// but over some times its target at least, for a burst is no flood. Where its tasks are late, and more waits than it
// has asked for of late, that counts, as what would have to be served within its target: callers who wait for answers
// before they ask again ask for no more than they get.
func (f *flow) use(now Time) float64 {
	r := &f.recent
	target := r.targets.low()
	use := r.kept(now) * r.asked / float64(r.over(now, burstTargets*target))
	if q := f.first[foreground]; q != nil && q.isLate(now) && target > 0 {
		use = max(use, float64(f.work)/float64(target))
	}
	return use / float64(f.device.parallel())
}

// share returns the part of the device that a flow beyond its share gets.
func (f *flow) share() float64 { return f.device.shares.level * f.weight }
