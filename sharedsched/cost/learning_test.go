package cost

import (
	"math"
	"testing"
)

// TestAModelThatRestedKnowsTheDevice has one model that did not run since the device became slower.
func TestAModelThatRestedKnowsTheDevice(t *testing.T) {
	w := newWorld(4, 0.015, 4)
	w.run(200)
	rested := w.models[3]
	w.models = w.models[:3]
	w.rest = 1.3
	w.run(21)
	if got, truth := float64(rested.Estimate(4).Cost), w.truth(rested, 4); got < 0.8*truth || got < 1.08*truth/w.rest {
		t.Errorf("estimate %v of a model that rested, which now takes %v", got, truth)
	}
	w.models[0].Curve = new(Curve) // a new one learns in reference time although the device is slow
	w.models[0].On(&w.Device)
	w.run(30)
	_, _, residual, _ := w.Factors()
	if got, truth := float64(w.models[0].Entries()[0].Median)*residual,
		w.truth(w.models[0], 4); math.Abs(got-truth) > 0.1*truth {
		t.Errorf("median × residual is %v, want about %v", got, truth)
	}
}

// TestBadTimesDoNotPoisonTheMedians has heat or a neighbour for long, then not any more.
func TestBadTimesDoNotPoisonTheMedians(t *testing.T) {
	good := Sample{Clock: 1000, MaxClock: 1000}
	for name, bad := range map[string]Sample{
		"throttled": {Clock: 1000, MaxClock: 1000, Throttled: true},
		"cooling":   {Clock: 1000, MaxClock: 1000, Cooling: true},
		"neighbour": {Clock: 1000, MaxClock: 1000, CoTenant: 400},
	} {
		w := newWorld(3, 0.015, 1, 2)
		w.Observe(good)
		w.run(300)
		before := w.models[0].Entries()
		w.rest = 1.3
		w.Observe(bad)
		w.run(200)
		if worst := w.worst(); worst > 0.08 {
			t.Errorf("%s: wrong by up to %.0f %%", name, 100*worst)
		}
		for i, e := range w.models[0].Entries() {
			if e != before[i] {
				t.Errorf("%s: learnt %+v after %+v", name, e, before[i])
			}
		}
		w.rest = 1
		w.Observe(good)
		w.run(40)
		if worst := w.worst(); worst > 0.05 {
			t.Errorf("%s no more: wrong by up to %.0f %%", name, 100*worst)
		}
	}
}

// TestNewSizesLearnInBadTimes: a curve must not stay cold because a neighbour never leaves.
func TestNewSizesLearnInBadTimes(t *testing.T) {
	w := newWorld(1, 0, 4)
	w.Observe(Sample{Clock: 1000, MaxClock: 1000, CoTenant: 300})
	w.run(20)
	if got := w.models[0].Entries()[0]; got.Samples != settled || w.worst() > 0.01 {
		t.Errorf("%+v, want %d samples and a good estimate", got, settled)
	}
}

// TestWhatIsKnownOfAModelGoesAlong with inheritance, and to another device except for the part that the device may have
// caused.
func TestWhatIsKnownOfAModelGoesAlong(t *testing.T) {
	w := newWorld(1, 0, 1)
	w.models[0].share = 1
	m := w.models[0]
	w.Observe(Sample{Clock: 1000, MaxClock: 1000})
	w.run(20)
	w.clock = 0.5
	w.Observe(Sample{Clock: 500, MaxClock: 1000, Throttled: true})
	w.run(20)
	w.rest = 1.3
	w.run(100)
	known := m.Explain()
	if known.ClockShare < 0.95 || known.Residual < 1.2 {
		t.Fatalf("%+v, want something to pass on", known)
	}
	var heir Curve
	heir.On(&w.Device)
	heir.Inherit(m.Curve)
	if got, want := float64(heir.Estimate(1).Cost), 1.1*float64(m.Estimate(1).Cost); math.Abs(got-want) > 0.01*want {
		t.Errorf("the heir expects %v, want %v", got, want)
	}
	var other Device
	m.On(&other)
	for _, x := range []Explanation{heir.Explain(), m.Explain()} {
		if x.ClockShare != known.ClockShare || x.CoTenantGain != known.CoTenantGain || x.Residual != 1 {
			t.Errorf("%+v, want the slopes of %+v and no residual", x, known)
		}
	}
}

// TestSensitivityIsNotLearntFromOneExecution which took a third longer by chance.
func TestSensitivityIsNotLearntFromOneExecution(t *testing.T) {
	w := newWorld(1, 0, 1)
	w.Observe(Sample{Clock: 1000, MaxClock: 1000})
	w.run(20)
	w.clock = 0.7
	w.Observe(Sample{Clock: 700, MaxClock: 1000})
	w.rest = 1.3
	w.run(1)
	if got := w.models[0].Explain().ClockShare; got > clockShare+0.25 {
		t.Errorf("clock share %v after one execution", got)
	}
}

// TestAStallTeachesNoSensitivity: it is soon forgotten that an execution took a hundred times as long, be it the first
// one since the device changed. (Of the clock not all is: medians are taught meanwhile, and take over a part of it.)
func TestAStallTeachesNoSensitivity(t *testing.T) {
	for name, bad := range map[string]Sample{
		"clock": {Clock: 700, MaxClock: 1000}, "neighbour": {Clock: 1000, MaxClock: 1000, CoTenant: 300},
	} {
		w := newWorld(1, 0, 1)
		w.Observe(Sample{Clock: 1000, MaxClock: 1000})
		w.run(20)
		w.Observe(bad)
		w.clock = float64(bad.Clock) / float64(bad.MaxClock)
		usual := 1 + coTenantGain*float64(bad.CoTenant)/1000
		w.rest = 100
		w.run(1)
		w.rest = usual
		w.run(20)
		if x := w.models[0].Explain(); math.Abs(x.ClockShare-clockShare) > 0.15 ||
			math.Abs(x.CoTenantGain-coTenantGain) > 0.1 {
			t.Errorf("%s: share of the clock %v and gain of neighbours %v, 20 executions after a stall", name,
				x.ClockShare, x.CoTenantGain)
		}
	}
}

func TestSensitivityIsLearnt(t *testing.T) {
	w := newWorld(2, 0.01, 1, 4)
	w.models[0].share, w.models[1].share = 1, 0.2
	w.Observe(Sample{Clock: 1000, MaxClock: 1000})
	w.run(100)
	for i := range 20 {
		w.clock = []float64{0.6, 1, 0.8, 1}[i%4]
		w.Observe(Sample{Clock: int(1000 * w.clock), MaxClock: 1000})
		w.run(20)
	}
	for _, m := range w.models {
		if got := m.Explain().ClockShare; math.Abs(got-m.share) > 0.1 {
			t.Errorf("clock share %v, want %v", got, m.share)
		}
	}

	w = newWorld(2, 0.01, 1, 4)
	w.run(100)
	w.Observe(Sample{CoTenant: 300})
	w.rest = 1 + 0.5*0.3
	w.run(100)
	for _, m := range w.models {
		if got := m.Explain().CoTenantGain; math.Abs(got-0.5) > 0.15 {
			t.Errorf("co-tenant gain %v, want 0.5", got)
		}
	}
}

// TestOneModelIsNotTheDevice makes a single model slower, with others on the device and without.
func TestOneModelIsNotTheDevice(t *testing.T) {
	for _, models := range []int{1, 4} {
		w := newWorld(models, 0.01, 1, 4)
		w.run(100 * models)
		w.models[0].base *= 1.5
		w.models[0].row *= 1.5
		w.run(100)
		if _, _, residual, _ := w.Factors(); math.Abs(residual-1) > 0.02 {
			t.Errorf("%d models: residual of the device %v after one of them changed", models, residual)
		}
		if worst := w.worst(); worst > 0.05 {
			t.Errorf("%d models: wrong by up to %.0f %%", models, 100*worst)
		}
	}
}

// TestShapesOfOneModelAreNotTheDevice: that all become slower at once may be caused by the model itself, until another
// model agrees.
func TestShapesOfOneModelAreNotTheDevice(t *testing.T) {
	for _, models := range []int32{1, 2} {
		w := newWorld(2, 0.01, 4)
		for i, m := range w.models {
			m.Of(int32(i) % models)
		}
		w.run(100)
		w.rest = 1.3
		w.run(20)
		if _, _, residual, _ := w.Factors(); (residual > 1) != (models > 1) {
			t.Errorf("residual of the device %v after what two shapes of %d models have shown", residual, models)
		}
		w.run(80)
		if worst := w.worst(); worst > 0.05 {
			t.Errorf("%d models: wrong by up to %.0f %%", models, 100*worst)
		}
	}
}
