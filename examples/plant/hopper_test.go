package plant

import (
	"math"
	"testing"
)

// TestFlightIsBallistic compares a throw with its parabola.
func TestFlightIsBallistic(t *testing.T) {
	e := hopper{height: 5, forward: 1, upward: 2, length: legLength}
	const seconds = 0.5
	for range int(seconds / tick) {
		e.advance(0, 0)
	}
	if want := 5 + 2*seconds - 0.5*gravity*seconds*seconds; math.Abs(e.height-want) > 0.005 {
		t.Errorf("height %.4f m after %v s, want %.4f", e.height, seconds, want)
	}
	if e.forward != 1 {
		t.Errorf("forward speed became %v m/s in flight", e.forward)
	}
}

// apex lets a hopper fall straight down from a metre and returns the top of its next flight, in metres.
func apex(extension float64) float64 {
	e := hopper{height: 1, length: legLength}
	landed, top := false, 0.0
	for range 2000 {
		e.advance(0, extension)
		landed = landed || e.standing
		if landed && !e.standing {
			top = max(top, e.height)
		}
		if landed && !e.standing && e.upward < 0 {
			break
		}
	}
	return top
}

func TestBounceLosesEnergyAndExtensionFeedsIt(t *testing.T) {
	passive, active := apex(0), apex(maxExtension)
	if passive >= 1 || passive < legLength {
		t.Errorf("a passive leg hops to %.3f m from 1 m; want less, but off the ground", passive)
	}
	if active <= passive+0.05 {
		t.Errorf("an extending leg hops to %.3f m, a passive one to %.3f m", active, passive)
	}
}

// TestFootPlacementSteers checks Raibert's first rule: a foot that lands ahead brakes, one that lands behind speeds up.
func TestFootPlacementSteers(t *testing.T) {
	after := func(angle float64) float64 {
		e := hopper{height: 0.7, forward: 0.5, legAngle: angle, length: legLength}
		landed := false
		for !landed || e.standing {
			e.advance(angle, 0)
			landed = landed || e.standing
			if e.fallen() {
				t.Fatalf("fell with the leg at %v rad", angle)
			}
		}
		return e.forward
	}
	behind, ahead := after(-0.1), after(0.3)
	if behind <= 0.5 || ahead >= 0.5 {
		t.Errorf("from 0.5 m/s: %.3f with the foot behind, %.3f with the foot ahead", behind, ahead)
	}
}
