package cost

const (
	clockShare   = 0.7 // until it is learnt
	coTenantGain = 1
	curveGain    = 0.05
	caution      = 1.15 // of High while the hardware holds the clock down
)

// link relates a curve's costs to the state of its device.
type link struct {
	device   *Device // nil: it never changes
	model    int32   // which the curve is of, to the device
	residual float64 // the unexplained part of the curve's own executions, as a logarithm
	clock    slope   // of the costs over state.slow
	coTenant slope   // of the costs over state.coTenant
	scale    float64 // published, as of revision seen of the device
	seen     uint64
}

// On puts the curve on a device, nil for one that never changes. It is the only one of its model there unless Of says
// otherwise.
func (c *Curve) On(d *Device) {
	c.revision = c.Revision() + 1 // before and after are told apart whatever the devices' revisions are
	c.link = link{device: d, clock: c.link.clock, coTenant: c.link.coTenant}
	if d != nil {
		d.curves++
		c.link.model = d.curves
		c.link.show()
	}
}

// Of says which model the curve is of, by a number that is not negative: a change that all curves of one model show may
// be caused by the model and not by the device. On must have been called before.
func (c *Curve) Of(model int32) { c.link.model = -1 - model } // below all that On gives

// factor returns by how much the curve's executions take longer in a state of the device than in the reference state.
func (l *link) factor(s *state) float64 {
	return s.factor(l.clockShare(), l.coTenantGain(), l.residual)
}

// clockShare returns the part of the time that goes with the inverse of the clock.
func (l *link) clockShare() float64 { return l.clock.of(clockShare, 1) }

// coTenantGain returns by how much the time grows with the share of the device that others use.
func (l *link) coTenantGain() float64 { return l.coTenant.of(coTenantGain, 4) }

// exact returns the present factor, to learn with.
func (l *link) exact() float64 { return l.factor(&l.device.now) }

// published returns the factor to predict with, and the further one of High.
func (l *link) published() (scale, high float64) {
	if l.seen != l.device.revision {
		l.show()
	}
	if l.device.shown.throttled {
		return l.scale, caution
	}
	return l.scale, 1
}

func (l *link) show() { l.scale, l.seen = l.predicted(), l.device.revision }

// predicted returns the factor of the published state, for the time from the start of an execution to its end.
func (l *link) predicted() float64 { return l.factor(&l.device.shown) * (1 + l.device.shown.waits) }

// settle learns from an execution of a measured size that took ratio times its reference cost, where exact was
// expected. It reports whether the published factor changed but for the device's revision.
func (l *link) settle(ratio, exact float64) bool {
	now := &l.device.now
	e := ln(ratio / exact)
	ratio = exact * limited(ratio/exact) // a stall says nothing of clocks and neighbours
	// A slope learns from the whole of the ratio, not from the part that residuals leave of it: they are to explain the
	// part that it cannot.
	if now.slow > clockStep || now.slow < -clockStep {
		l.clock.learn(now.slow, ratio/now.coTenantFactor(l.coTenantGain())-1, clockShare)
	}
	if now.coTenant > maxCoTenancy {
		l.coTenant.learn(now.coTenant, ratio/now.clockFactor(l.clockShare())-1, coTenantGain)
	}
	common := l.device.settle(l.model, e)
	l.residual = follow(l.residual, curveGain, e-common)
	before, _ := l.published()
	after := l.predicted()
	if !stepped(after, before) {
		return false
	}
	l.show()
	return true
}

// slope is the slope of a line through the origin, by least squares over the latest samples and a prior. The zero value
// is the prior.
type slope struct {
	product, square float64 // of the samples' deviations from the prior
	change          float64 // of the slope from that
}

// prior is the weight of the prior slope: as much as some samples with x = 0.4.
const prior = 0.5

func (s *slope) learn(x, y, beforehand float64) {
	const forget = 0.98
	s.product = float64(forget*s.product) + float64(x*(y-float64(beforehand*x)))
	s.square = float64(forget*s.square) + float64(x*x)
	s.change = s.product / (s.square + prior)
}

func (s *slope) of(beforehand, most float64) float64 { return min(max(beforehand+s.change, 0), most) }
