package cost

import (
	"testing"
	"time"
)

// on returns a curve on d where one row takes 100 ms in the reference state.
func on(d *Device) *Curve {
	c := new(Curve)
	c.On(d)
	repeat(c, 1, 5, 100*ms)
	return c
}

func TestEstimatesGoWithTheDevice(t *testing.T) {
	reference := Sample{Clock: 1000, MaxClock: 1000}
	for _, tc := range []struct {
		name       string
		sample     Sample
		cost, high time.Duration
	}{
		{"reference", reference, 100 * ms, 102 * ms},
		{"half of the clock", Sample{Clock: 500, MaxClock: 1000}, 170 * ms, 173400 * time.Microsecond},
		{"a clock too low to be true", Sample{Clock: 1, MaxClock: 1000}, 380 * ms, 387600 * time.Microsecond},
		{"idle", Sample{Clock: 200, MaxClock: 1000, Idle: true}, 100 * ms, 102 * ms},
		{"throttled", Sample{Clock: 1000, MaxClock: 1000, Throttled: true}, 100 * ms, 117300 * time.Microsecond},
		{"cooling", Sample{Clock: 500, MaxClock: 1000, Cooling: true}, 170 * ms, 173400 * time.Microsecond},
		{"co-tenant", Sample{Clock: 1000, MaxClock: 1000, CoTenant: 300}, 130 * ms, 132600 * time.Microsecond},
		{
			"expired",
			Sample{Clock: 500, MaxClock: 1000, CoTenant: 300, Throttled: true, Expired: true},
			100 * ms,
			102 * ms,
		},
	} {
		var d Device
		d.Observe(reference)
		c := on(&d)
		d.Observe(tc.sample)
		got := c.Estimate(1)
		if got.Cost.Round(time.Microsecond) != tc.cost || got.High.Round(time.Microsecond) != tc.high {
			t.Errorf("%s: %+v, want %v and %v", tc.name, got, tc.cost, tc.high)
		}
		if least, _ := c.AtLeast(1); least != got.Cost {
			t.Errorf("%s: AtLeast is %v and the estimate %v", tc.name, least, got.Cost)
		}
	}
}

// TestWhatIsNotKnownIsTakenToBeTheReference when it was another before.
func TestWhatIsNotKnownIsTakenToBeTheReference(t *testing.T) {
	for name, none := range map[string]Sample{
		"no recent sample": {Expired: true}, "nothing": {}, "no clock": {MaxClock: 1000}, "no maximum": {Clock: 500},
		"no clock of a device without work": {MaxClock: 1000, Idle: true},
	} {
		var d Device
		d.Observe(Sample{Clock: 500, MaxClock: 1000, CoTenant: 500, Throttled: true, Cooling: true})
		d.Observe(none)
		if clock, coTenant, residual, _ := d.Factors(); clock != 1 || coTenant != 1 || residual != 1 || d.Throttled() ||
			!d.now.isClean() {
			t.Errorf("%s: factors %v, %v, %v, throttled: %v", name, clock, coTenant, residual, d.Throttled())
		}
		d.Observe(Sample{Clock: 520, MaxClock: 1000}) // near enough to the last one to be smoothed, were it still known
		if clock, _, _, _ := d.Factors(); clock != 1+clockShare*(1/0.52-1) {
			t.Errorf("%s: clock factor %v when telemetry is back", name, clock)
		}
	}
}

// TestFactorsArePublishedInSteps has a clock whose reading wavers, then goes down steadily.
func TestFactorsArePublishedInSteps(t *testing.T) {
	var d Device
	d.Observe(Sample{Clock: 1000, MaxClock: 1000})
	c := on(&d)
	before := c.Revision()
	for i := range 100 {
		d.Observe(Sample{Clock: 1020 - 40*(i%2), MaxClock: 1000})
	}
	if c.Revision() != before || d.Revision() != 0 {
		t.Error("published a wavering clock")
	}
	cost, revisions := c.Estimate(1).Cost, 0
	for i := range 300 {
		d.Observe(Sample{Clock: 1000 - i, MaxClock: 1000})
		now := c.Estimate(1).Cost
		changed := c.Revision() != before
		if (now != cost) != changed {
			t.Fatalf("estimate %v after %v, revision changed: %v", now, cost, changed)
		}
		if changed {
			if now < cost*101/100 || now > cost*103/100 {
				t.Errorf("a step from %v to %v", cost, now)
			}
			revisions++
		}
		before, cost = c.Revision(), now
	}
	if revisions < 15 || revisions > 30 {
		t.Errorf("%d steps of 1 %% on the way to a factor of 1.3", revisions)
	}
}

func TestCoTenantsTakeTurnsAtWorst(t *testing.T) {
	for share, want := range map[float64]float64{0.2: 1.25, 0.5: 2, 1: 5} {
		if got := (&state{coTenant: share}).coTenantFactor(4); got < 0.999*want || got > 1.001*want {
			t.Errorf("next to others with %v of the device everything takes %v times as long, want %v", share, got, want)
		}
	}
}

func TestRevisionsNeverRepeat(t *testing.T) {
	var a, b Device
	for i := range 10 {
		a.Observe(Sample{Clock: 500 + 100*(i%2), MaxClock: 1000})
	}
	var c Curve
	last := c.Revision()
	for _, d := range []*Device{&a, &b, nil, &a} {
		c.On(d)
		if c.Revision() <= last {
			t.Errorf("revision %d after %d", c.Revision(), last)
		}
		last = c.Revision()
	}
}

// TestLateSamplesAreNotCountedTwice: executions show a lower clock before the next sample reports it. The part that
// they have shown by then is not left over once the sample explains it; the sample does not explain the part that they
// had shown before the last sample.
func TestLateSamplesAreNotCountedTwice(t *testing.T) {
	reference, slow := Sample{Clock: 1000, MaxClock: 1000}, Sample{Clock: 700, MaxClock: 1000}
	for _, tc := range []struct {
		name    string
		samples []Sample // after the executions that took 1.3 times as long
		want    time.Duration
	}{
		{"the clock is known late", []Sample{slow}, 130 * ms},
		{"the clock falls later", []Sample{reference, slow}, 169 * ms},
		{"the clock rises", []Sample{{Clock: 1300, MaxClock: 1000}}, 109 * ms},
	} {
		var d Device
		d.Observe(reference)
		a, b := on(&d), on(&d)
		for range 30 {
			for _, c := range []*Curve{a, b} {
				c.observe(c.sizes[0], 130*ms) // and the medians stay as they are
			}
		}
		for _, s := range tc.samples {
			d.Observe(s)
		}
		if got := a.Estimate(1).Cost; got < tc.want*97/100 || got > tc.want*103/100 {
			t.Errorf("%s: %v, want about %v", tc.name, got, tc.want)
		}
	}
}

// TestEstimatesCountWaits: an execution that shares its processor ends later than its device time says, which teaches
// nothing about the model.
func TestEstimatesCountWaits(t *testing.T) {
	var d Device
	c := on(&d)
	for _, tc := range []struct{ used, elapsed, since, want time.Duration }{
		{50 * ms, 100*ms + around, time.Hour, 200 * ms},
		{50 * ms, 50 * ms, waitWindow / 2, 150 * ms},
		{50 * ms, time.Hour, time.Hour, longestWait * 100 * ms}, // it stalled
		{50 * ms, 50*ms + around, time.Hour, 100 * ms},
		{ms / 100, around, time.Hour, 100 * ms},         // it is tiny beside what surrounds it
		{around - 1, 4 * around, time.Hour, 100 * ms},   // still what surrounds it, on a busy machine
		{2 * around, 5 * around, time.Hour, 200 * ms},   // it waited
		{around / 10, 4 * around, waitWindow, 100 * ms}, // and now small ones end in time
		{50 * ms, ms, time.Hour, 100 * ms},              // clocks differ
	} {
		d.Ran(tc.used, tc.elapsed, tc.since)
		c.Settle(c.Begin(1), 100*ms)
		got := c.Estimate(1)
		if got.Cost.Round(time.Microsecond) != tc.want {
			t.Errorf("after %v that took %v: %v, want %v", tc.used, tc.elapsed, got.Cost, tc.want)
		}
		if least, _ := c.AtLeast(1); least != got.Cost {
			t.Errorf("AtLeast is %v and the estimate %v", least, got.Cost)
		}
	}
}
