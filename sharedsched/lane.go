package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// LaneID names a lane: one place for a batch in flight on a device.
type LaneID int32

// lane is free, or has a batch running: start takes it from the one to the other, settle back. It is gone with its
// device, or, where the device is removed meanwhile, when its batch ends.
type lane struct {
	id      LaneID
	device  *device
	running bool
	queue   *queue
	mixed   bool // it has rows of other queues, too
	class   class
	started Time
	due     Time // when its first task wants to be answered
	est     cost.Estimate
	share   time.Duration // of the device's busy time
	batch   BatchEvent    // as it started; for the observer, when it ends
}

// start puts the batch in flight: the flow is charged its estimate.
func (c *Core) start(now Time, l *lane, p pick, b *Batch) {
	q, k := p.queue, foreground
	if p.rule == PickBackground {
		k = background
	}
	d := l.device
	d.accrue(now)
	d.inFlight++
	b.Device = d.Name
	l.running, l.queue, l.class, l.started, l.share = true, q, k, now, 0
	l.mixed = c.mixed(q, b)
	l.due = c.get(b.Spans[0].task).due
	// By the rows executed, not by those asked for: padding costs as much as rows do.
	if l.est = q.estimate(b.Padded); l.est.Source == cost.Unmeasured {
		l.est = q.shape.Begin(b.Padded)
		c.touchShape(q.shape) // its other queues wait for the measurement
	}
	c.batches++
	l.batch = BatchEvent{
		BatchStart: BatchStart{
			Number: c.batches, Lane: l.id, Started: now, Rule: p.rule, Slack: p.slack, Demanding: p.demanding,
			Left: q.waiting, PassedOver: p.passed, Background: k == background,
		},
		Version: b.Version, Device: d.Name, Tasks: len(b.Spans), Rows: b.Rows, Padded: b.Padded, Reason: b.Reason,
	}
	if l.est.Source != cost.Unmeasured {
		l.batch.Estimated = unwaited(d, l.est.Cost)
	}
	if k == background {
		d.guard.began(now, l.est.Cost)
	}
	if !q.alone && q.full.Known() {
		d.full.note(now, q.full.Cost)
	}
	q.version.account.Started++
	q.served = true
	// Now and not at the end: until then other lanes would serve the flow again, as if it had got nothing.
	// Within its share too: a flow that asks for about its share is beyond it now and then.
	for i := 0; i < len(b.Spans); {
		of, spans, part := c.stretch(l, b, i, l.est.Cost)
		d.fair[k].Charge(fairq.Flow(of.flow.id), part)
		if i == 0 || of != q { // which may have rows at two places
			of.running++
		}
		i += spans
	}
	c.waited(now, d)
	d.setTurn(now)
	c.touch(q)
	c.log.batch(now, q, b, l, &d.fair[k], p)
}
