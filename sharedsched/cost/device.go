package cost

import (
	"cmp"
	"slices"
	"time"
)

// Device is the state of one device as far as it makes executions faster or slower than in the reference state, which
// is: at the reference clock, with no one else on the device. All curves of a device share it. The zero value is in the
// reference state, and stays there as far as telemetry is concerned if Observe is never called.
//
// Telemetry reports a change at once, but only the causes it knows, and not how much each model suffers. The residual
// is the part of the measurements that these leave unexplained: it needs no telemetry, but some twenty executions. That
// time goes with the inverse of the clock is Clockwork's observation (Gujarati et al., OSDI 2020), where it is the
// whole model.
//
// Estimates follow in steps of 1 %, so that callers can keep figures derived from them until Revision changes.
type Device struct {
	now, shown state // as known, and as published
	revision   uint64
	clock      float64 // smoothed, as a share of the reference; 0 while unknown

	sampled float64 // residual when the latest sample was taken

	curves int32            // curves ever on the device, each of a model of its own until Of says otherwise
	recent [recent]surprise // the latest executions, by age
	n      int              // executions ever
}

// Sample is telemetry's reading of a device at one moment.
type Sample struct {
	Clock    int // of the multiprocessors, in MHz; 0 if unknown: taken to be the reference
	MaxClock int // the clock that Clock is compared with, the same in every sample, in MHz; 0 if unknown
	// Idle: nothing was running, so that the clock means nothing.
	Idle bool
	// Throttled: the hardware holds the clock down, because of heat, power or a fault. That is a time to be careful.
	Throttled bool
	// Cooling: the driver holds the clock down because of heat. Its whole effect for now is in the clock, but it is no
	// time to learn in either.
	Cooling bool `json:",omitempty"`
	// CoTenant is the share of the device that other processes use, in per mille.
	CoTenant int
	// MemoryFree is how much of the device's memory, MemoryTotal, is free. In bytes; both 0 if unknown. It changes no
	// estimate.
	MemoryFree, MemoryTotal int64 `json:",omitempty"`
	// Expired: there is no recent sample. The others do not count, and the device is taken to be in the reference
	// state.
	Expired bool
}

const (
	step      = 0.01 // of the published state
	clockStep = 0.05 // a change of the clock, not only of its reading: it counts at once, less is smoothed

	recent       = 8
	deviceGain   = 0.10
	keep         = 127. / 128 // of a residual, per execution
	maxResidual  = 1.4        // a factor of 4
	maxCoTenancy = 0.05       // below, the device counts as ours alone

	waitWindow  = 100 * time.Millisecond // over which waits are averaged
	waitStep    = 0.1                    // of the published factor: queues are looked at again for each
	longestWait = 4                      // elapsed over device time; beyond, it was a stall, which passes
	// around is the time of what surrounds an execution, such as waking its thread. It does not grow with the model's
	// cost as waiting for a processor does. Of an execution shorter than that it is nearly all.
	around = time.Millisecond
)

// surprise is the ratio of an execution's time to its estimate, as a logarithm.
type surprise struct {
	model int32
	error float64
}

// state is the state of a device. The zero value is the reference state.
type state struct {
	slow      float64 // 1/clock - 1, the clock as a share of the reference
	coTenant  float64 // the share of the device that others use
	residual  float64 // the part that clock and co-tenants do not explain, as a logarithm
	waits     float64 // elapsed time of executions over their device time, less 1; not part of factor
	throttled bool
	cooling   bool
}

// isClean reports whether the state is good for learning reference costs.
func (s *state) isClean() bool { return !s.throttled && !s.cooling && s.coTenant < maxCoTenancy }

// clockFactor returns by how much work takes longer for the clock. share is the part of its time that goes with the
// clock.
func (s *state) clockFactor(share float64) float64 { return 1 + float64(share*s.slow) }

// coTenantFactor returns by how much work takes longer for the others on the device, at most as much as if they took
// turns with us.
func (s *state) coTenantFactor(gain float64) float64 {
	if s.coTenant == 0 {
		return 1
	}
	return min(1+float64(gain*s.coTenant), 1/(1-min(s.coTenant, 0.8)))
}

// known returns by how much, according to telemetry, the work of an unknown model takes longer.
func (s *state) known() float64 {
	return float64(s.clockFactor(clockShare) * s.coTenantFactor(coTenantGain))
}

func (s *state) factor(share, gain, residual float64) float64 {
	return float64(s.clockFactor(share) * s.coTenantFactor(gain) * exp(s.residual+residual))
}

// Ran notes how long an execution that used the device for so long took from its start to its end, and how long after
// the end of the one before that was. What it waited was for a processor that others were on. Costs are learnt without
// the waits, which say nothing of the model, and predicted with them.
func (d *Device) Ran(used, elapsed, since time.Duration) {
	ratio := 1.
	if used >= around {
		ratio = min(max(float64(elapsed-around)/float64(used), 1), longestWait)
	}
	weight := min(float64(since)/float64(waitWindow), 1)
	d.now.waits += float64(weight * (ratio - 1 - d.now.waits))
	if change := d.now.waits - d.shown.waits; max(change, -change) >= waitStep {
		d.publish()
	}
}

// Observe takes a telemetry sample.
func (d *Device) Observe(s Sample) {
	before := d.now
	if s.Expired {
		d.clock = 0
		d.now = state{residual: d.now.residual, waits: d.now.waits}
	} else {
		d.take(s)
	}
	now, shown := &d.now, &d.shown
	// Executions since the last sample may have shown already the change that this one explains.
	now.residual -= overlap(ln(now.known()/before.known()), now.residual-d.sampled)
	d.sampled = now.residual
	if now.throttled != shown.throttled ||
		stepped(now.clockFactor(clockShare), shown.clockFactor(clockShare)) ||
		stepped(now.coTenantFactor(coTenantGain), shown.coTenantFactor(coTenantGain)) {
		d.publish()
	}
}

// overlap returns the part that two changes have in common: the smaller of them, if they are in the same direction.
func overlap(a, b float64) float64 {
	if a < 0 {
		return -max(0, min(-a, -b))
	}
	return max(0, min(a, b))
}

func (d *Device) take(s Sample) {
	switch {
	case s.Clock <= 0 || s.MaxClock <= 0: // it was known for as long as a reading is good for
		d.clock, d.now.slow = 0, 0
	case !s.Idle:
		clock := float64(s.Clock) / float64(s.MaxClock)
		if change := clock - d.clock; max(change, -change) < clockStep {
			clock = d.clock + float64(change/4)
		}
		d.clock = clock
		d.now.slow = 1/min(max(clock, 0.2), 1.3) - 1
	}
	d.now.throttled, d.now.cooling = s.Throttled, s.Cooling
	d.now.coTenant = min(max(float64(s.CoTenant)/1000, 0), 1)
}

// publish shows the state as it is now.
func (d *Device) publish() {
	d.shown = d.now
	d.revision++
}

// stepped reports whether a differs enough from b to be published in its place.
func stepped(a, b float64) bool { return max(a-b, b-a) >= step*b }

// settle learns from an execution that took longer than estimated by e, a logarithm, and returns the part of e that the
// device caused: the median of the latest executions, provided that they are of at least two models. One alone may have
// changed for reasons of its own.
func (d *Device) settle(model int32, e float64) float64 {
	d.recent[d.n%recent] = surprise{model, e}
	d.n++
	common := d.common()
	d.now.residual = follow(d.now.residual, deviceGain, common)
	if change := d.now.residual - d.shown.residual; max(change, -change) >= step {
		d.publish()
	}
	return common
}

// common returns the median surprise of the latest executions, or 0 where they are of one model or do not agree on a
// direction. If 8 differ by chance alone, 7 of them agree in one case of 14: noise hardly moves the device, however
// strong.
func (d *Device) common() float64 {
	if d.n < recent {
		return 0
	}
	up, down, others := 0, 0, 0
	for i := range d.recent {
		s := &d.recent[i]
		if s.error > 0 {
			up++
		}
		if s.error < 0 {
			down++
		}
		if s.model != d.recent[0].model {
			others++
		}
	}
	if max(up, down) < recent-1 || others == 0 {
		return 0
	}
	errors := d.recent
	slices.SortFunc(errors[:], func(s, t surprise) int { return cmp.Compare(s.error, t.error) })
	return (errors[recent/2-1].error + errors[recent/2].error) / 2
}

// follow moves a residual by a part of an error. It forgets a little every time: medians learn lasting changes, and
// without forgetting, residual and medians would drift apart, in opposite directions, for good.
func follow(residual, gain, e float64) float64 {
	return min(max(float64((residual+float64(gain*e))*keep), -maxResidual), maxResidual)
}

// Revision changes with the published state.
func (d *Device) Revision() uint64 { return d.revision }

// Throttled reports whether the hardware holds the clock down.
func (d *Device) Throttled() bool { return d.shown.throttled }

// Waits returns by how much executions take longer because they wait.
func (d *Device) Waits() float64 { return 1 + d.shown.waits }

// Factors returns by how much a model that is not known better takes longer than in the reference state: for the clock,
// for other processes on the device, the residual, which neither explains, and for the time that executions wait.
func (d *Device) Factors() (clock, coTenant, residual, waits float64) {
	s := &d.shown
	return s.clockFactor(clockShare), s.coTenantFactor(coTenantGain), exp(s.residual), d.Waits()
}
