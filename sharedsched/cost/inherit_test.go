package cost

import (
	"testing"
	"time"
)

func TestInheritedEstimates(t *testing.T) {
	var old, c Curve
	linear(&old, 4, 8)
	c.Begin(4)
	before := c.Revision()
	c.Inherit(&old)
	if c.Revision() == before || c.IsCold() {
		t.Error("still cold, or the revision did not change")
	}
	got := c.Estimate(8)
	if got.Cost != 13200*time.Microsecond || got.High != 16830*time.Microsecond || got.Source != Inherited ||
		got.Known() {
		t.Errorf("%+v, want 1.1 × 12ms, 1.1 × 1.25 × 12.24ms, inherited", got)
	}
	if got := c.Estimate(6); got.Cost != 11*ms || got.Source != Inherited {
		t.Errorf("between: %+v, want 11ms, inherited", got)
	}
	if _, ok := c.AtLeast(8); ok {
		t.Error("AtLeast trusts what was inherited")
	}
	if got := c.MaxRows(0, 64, same); got != 16 {
		t.Errorf("MaxRows = %d, want twice the largest size of the other", got)
	}
	e := c.Begin(8)
	c.Begin(8)
	c.Abandon(Estimate{Source: Unmeasured}) // the one that began before
	if c.ColdInFlight() {
		t.Error("what was inherited counts as cold")
	}
	if x := c.Explain(); !x.Inherited || x.Beta.Round(time.Microsecond) != 1100*time.Microsecond {
		t.Errorf("%+v, want an inherited slope of 1.1ms", x)
	}

	// A snapshot.
	repeat(&old, 8, 20, time.Second)
	if got := c.Estimate(8).Cost; got != 13200*time.Microsecond {
		t.Errorf("it followed the other to %v", got)
	}
	// Own measurements replace it altogether.
	c.Settle(e, 30*ms)
	repeat(&c, 8, 2, 30*ms)
	if got := c.Estimate(8); got.Cost != 30*ms || got.Source != Measured || !got.Known() {
		t.Errorf("after own measurements: %+v", got)
	}
	if got := c.Estimate(4); got.Cost != 30*ms || c.Explain().Inherited {
		t.Errorf("after own measurements: %+v", got)
	}
}

func TestInheritanceIsPassedOn(t *testing.T) {
	var first, second, third Curve
	linear(&first, 4, 8)
	second.InheritScaled(&first, 2)
	third.Inherit(&second)
	if got, want := third.Estimate(8).Cost, 26400*time.Microsecond; got != want {
		t.Errorf("%v, want %v: raised once, scaled", got, want)
	}
}

func TestNothingToInherit(t *testing.T) {
	var cold, c, warm Curve
	linear(&warm, 8)
	c.Inherit(&cold)
	c.InheritScaled(&warm, 0)
	if !c.IsCold() || c.Estimate(1).Source != Unmeasured {
		t.Errorf("inherited from a cold curve: %+v", c.Estimate(1))
	}
	var other Curve
	repeat(&other, 8, 3, time.Second)
	before := warm.Revision()
	warm.Inherit(&other)
	if got := warm.Estimate(8); got.Cost != 12*ms || got.Source != Measured || warm.Revision() != before {
		t.Errorf("a curve with measurements inherited: %+v", got)
	}
}
