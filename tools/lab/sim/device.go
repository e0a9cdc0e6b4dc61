package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Device says how the simulated device departs from the models' costs.
type Device struct {
	Noise       float64 // standard deviation of the logarithm of an execution's time
	Stalls      float64 // share of executions that take StallFactor times as long
	StallFactor float64
	First       float64 // factor of the first execution of a cold model; 0 counts as 1
	Memory      int64   // bytes; 0: as much as is asked for
	Pace        []Pace  // changes of the device's speed, in order of time
}

// Pace is the state of the device from a time on. The zero value is the state that costs are given for.
type Pace struct {
	From Time
	// Speed is that of all batches, including the running ones; 0 counts as 1. Telemetry knows nothing of it.
	Speed float64
	// Clock is the clock as a share of the reference, 0 counts as 1, and CoTenant the share of the device that other
	// processes use. How much either matters depends on the model, and telemetry knows of both. They count for batches
	// that start from then on.
	Clock, CoTenant float64
	Taken           int64 // bytes of memory that other processes hold
}

// slows returns by how much executions of a model take longer.
func (p *Pace) slows(m *Model) float64 {
	clock := 1.0
	if p.Clock > 0 {
		clock += m.ClockShare * (1/p.Clock - 1)
	}
	return clock * (1 + m.CoTenantGain*p.CoTenant)
}

// TypicalDevice has the noise of a device without other users.
var TypicalDevice = Device{Noise: 0.015, Stalls: 0.001, StallFactor: 3, First: 3}

// during lets the device be in a state from one part of the span to another.
func during(from, until, parts Time, state Pace) func(time.Duration) []Pace {
	return func(span time.Duration) []Pace {
		begun := state // several runs ask at once
		begun.From = Time(span) * from / parts
		return []Pace{begun, {From: Time(span) * until / parts}}
	}
}

// coTenant lets another process use the device in four of nine parts of the span: executions then take 1.5 times as
// long.
func coTenant(span time.Duration) []Pace {
	var course []Pace
	for i := range Time(4) {
		course = append(course, during(2*i+1, 2*i+2, 9, Pace{Speed: 1 / 1.5})(span)...)
	}
	return course
}

// noise draws how long executions really take.
type noise struct {
	Device
	rng *rand.Rand
	ran []bool // by model: it was executed before
}

func newNoise(d *Device, models int, seed uint64) noise {
	return noise{Device: *d, rng: stream(seed, 1), ran: make([]bool, models)}
}

func (n *noise) of(model int, cost time.Duration, m *Model) time.Duration {
	factor := 1.0
	if n.Noise > 0 {
		factor = math.Exp(n.Noise * n.rng.NormFloat64())
	}
	if n.Stalls > 0 && n.rng.Float64() < n.Stalls {
		factor *= n.StallFactor
	}
	if m.Cold && !n.ran[model] && n.First > 0 {
		factor *= n.First
	}
	n.ran[model] = true
	return time.Duration(float64(cost) * factor)
}
