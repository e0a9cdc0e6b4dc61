package cost

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func same(rows int) int { return rows }

func measure(c *Curve, rows int, samples ...time.Duration) {
	for _, s := range samples {
		c.Settle(c.Begin(rows), s)
	}
}

func TestColdUntilThreeSamples(t *testing.T) {
	var c Curve
	for _, sample := range []time.Duration{42 * ms, 43 * ms} {
		measure(&c, 1, sample)
		if got := c.Estimate(1); got.Cost != Cold || got.Source != Unmeasured {
			t.Fatalf("after %v: %+v, want the cold default", sample, got)
		}
		if got := c.MaxRows(time.Second, 64, same); got != ColdRows {
			t.Fatalf("a cold curve allows %d rows, want %d", got, ColdRows)
		}
	}
	measure(&c, 1, 44*ms)
	if got := c.Estimate(1); got.Cost != 43*ms || got.Source != Measured {
		t.Errorf("after three samples: %+v, want their median, 43ms", got)
	}
}

func TestMedianFollowsTheWindow(t *testing.T) {
	var c Curve
	for range 100 {
		measure(&c, 1, 100*ms)
	}
	for range 6 {
		measure(&c, 1, 10*ms)
	}
	if got := c.Estimate(1).Cost; got != 10*ms {
		t.Errorf("estimate %v after six of eleven samples changed to 10ms", got)
	}
	measure(&c, 1, time.Hour)
	if got := c.Estimate(1).Cost; got != 10*ms {
		t.Errorf("one outlier moved the median to %v", got)
	}
}

func TestMaxRows(t *testing.T) {
	var c Curve
	for _, rows := range []int{1, 2, 4, 8, 16} {
		cost := time.Duration(rows) * 2 * ms
		measure(&c, rows, cost, cost, cost)
	}
	toEight := func(rows int) int { return (rows + 7) / 8 * 8 }
	for _, tc := range []struct {
		name   string
		budget time.Duration
		limit  int
		padded func(int) int
		want   int
	}{
		{"within the budget", 20 * ms, 64, same, 10},
		{"no budget: twice the largest size", 0, 64, same, 32},
		{"limit below", 20 * ms, 5, same, 5},
		{"a single row over the budget still runs", ms, 64, same, 1},
		{"padding counts", 20 * ms, 64, toEight, 8},
	} {
		if got := c.MaxRows(tc.budget, tc.limit, tc.padded); got != tc.want {
			t.Errorf("%s: MaxRows = %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestColdExecutionsAreCounted(t *testing.T) {
	var c Curve
	a := c.Begin(1)
	if !c.ColdInFlight() {
		t.Error("a cold execution began and none is in flight")
	}
	c.Abandon(a)
	if c.ColdInFlight() || c.Estimate(1).Source != Unmeasured {
		t.Error("an abandoned execution is still in flight, or taught something")
	}
	c.Settle(c.Begin(1), -ms)
	if len(c.Entries()) != 0 {
		t.Errorf("a negative measurement was kept: %+v", c.Entries())
	}
}

func TestSizesAreBounded(t *testing.T) {
	var c Curve
	for rows := 1; rows <= 1000; rows++ {
		measure(&c, rows, ms, ms, ms)
	}
	if n := len(c.Entries()); n != maxSizes {
		t.Errorf("%d sizes kept, want %d", n, maxSizes)
	}
	if got := c.Estimate(1000).Source; got != Measured {
		t.Errorf("the newest size is %v", got)
	}
}

func TestTheLatestMeasurementIsBelieved(t *testing.T) {
	var c Curve
	measure(&c, 1, 100*ms, 100*ms, 100*ms) // stale: the device was slow then
	measure(&c, 8, 10*ms, 10*ms, 10*ms)
	if at1, at8 := c.Estimate(1).Cost, c.Estimate(8).Cost; at1 != 10*ms || at8 != 10*ms {
		t.Errorf("estimates %v and %v, want 10ms both", at1, at8)
	}
	if least, ok := c.AtLeast(8); least != 10*ms || !ok {
		t.Errorf("AtLeast(8) = %v, %v", least, ok)
	}
	measure(&c, 4, 30*ms, 30*ms, 30*ms) // slow again
	for rows, want := range map[int]time.Duration{1: 30 * ms, 4: 30 * ms, 8: 30 * ms} {
		if got := c.Estimate(rows).Cost; got != want {
			t.Errorf("Estimate(%d) = %v, want %v", rows, got, want)
		}
	}
}

// TestSizesTakenInTurnAreLearnt uses one size more than are kept, again and again: all but one become known.
func TestSizesTakenInTurnAreLearnt(t *testing.T) {
	var c Curve
	for range 2 * MinSamples {
		for rows := 1; rows <= maxSizes+1; rows++ {
			measure(&c, rows, ms)
		}
	}
	known := 0
	for _, e := range c.Entries() {
		if e.Trusted {
			known++
		}
	}
	if known < maxSizes-1 {
		t.Errorf("%d of %d sizes are known", known, maxSizes)
	}
}

func TestAPaddedRowOverBudgetIsFilled(t *testing.T) {
	var c Curve
	measure(&c, 8, 50*ms, 50*ms, 50*ms)
	toEight := func(rows int) int { return (rows + 7) / 8 * 8 }
	if got := c.MaxRows(20*ms, 64, toEight); got != 8 {
		t.Errorf("MaxRows = %d: eight rows cost what one costs, so all eight belong in the batch", got)
	}
}
