package plant

import (
	"math"
	"testing"
)

// TestFirstPush checks the equations at a state whose accelerations are easily found by hand: from rest and
// upright, 10 N give the pole -(10/1.1)/(0.5·(4/3-0.1/1.1)) rad/s² and the cart 10/1.1+0.05·14.634/1.1 m/s².
func TestFirstPush(t *testing.T) {
	var e cartPole
	e.advance(10)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"cart [m/s]", e.speed, Period * 9.75610},
		{"pole [rad/s]", e.spin, Period * -14.63415},
	} {
		if math.Abs(c.got-c.want) > 1e-6 {
			t.Errorf("%s: %.7f, want %.7f", c.name, c.got, c.want)
		}
	}
}

// TestPowerIsForceTimesSpeed checks the equations against the energy of a cart and a uniform rod: it changes only by
// the work of the force.
func TestPowerIsForceTimesSpeed(t *testing.T) {
	for _, force := range []float64{0, 7} {
		before := cartPole{x: 1, speed: -0.7, angle: 0.15, spin: 1.3}
		after := before
		after.advance(force)
		v, w, sin, cos := before.speed, before.spin, math.Sin(before.angle), math.Cos(before.angle)
		a, b := (after.speed-v)/Period, (after.spin-w)/Period
		power := cartMass*v*a + // the cart, then the rod's centre, its rotation and its height
			poleMass*(v*a+halfLength*(a*w*cos+v*b*cos-v*w*w*sin)+halfLength*halfLength*w*b) +
			poleMass*halfLength*halfLength/3*w*b - poleMass*cartGravity*halfLength*sin*w
		if want := force * v; math.Abs(power-want) > 1e-9 {
			t.Errorf("force %v N: power %.9f W, want %.9f", force, power, want)
		}
	}
}

// TestStateFeedbackBalances holds the pole with the classic linear law, so that the task is known to be solvable
// and the signs of observation and action to agree.
func TestStateFeedbackBalances(t *testing.T) {
	pole := CartPole.New().(*plant)
	total, stood := 0.0, 0
	const episodes = 50
	for seed := range uint64(episodes) {
		total += Return(pole, seed, func(o []float32) []float32 {
			return []float32{0.1*o[0] + 0.2*o[1] + 4*o[2] + 0.8*o[3]}
		})
		if pole.step == MaxSteps {
			stood++
		}
	}
	if stood < episodes*9/10 {
		t.Errorf("state feedback held the pole in %d of %d episodes", stood, episodes)
	}
	if got := total / episodes; got > MaxSteps {
		t.Errorf("mean return %.1f is above the maximum of %d", got, MaxSteps)
	}
}
