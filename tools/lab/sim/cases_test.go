package sim

import (
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// TestNobodyWithinHisShareLoses: cases in which a scheduler of this kind was found to take the answers of a tenant that
// asked for no more than its share, because of what somebody else asked for.
func TestNobodyWithinHisShareLoses(t *testing.T) {
	skipUnderRace(t)
	const ms = time.Millisecond
	heavy := Model{Name: "heavy", Base: 12 * ms, PerRow: ms, MaxBatch: 64, SLO: 500 * ms, Rate: 450}
	trickle := Model{
		Name: "trickle", Base: ms / 2, PerRow: ms / 10, MaxBatch: 64, SLO: 100 * ms, Target: 20 * ms, Rate: 2.4,
	}
	mixed := Model{Name: "mixed", Base: 2 * ms, PerRow: ms / 5, MaxBatch: 64, Rate: 220, SLO: 25 * ms, Mix: []Wish{
		{Share: 20. / 220, SLO: time.Second, Priority: sharedsched.CriticalPlus},
		{Share: 200. / 220, SLO: 25 * ms, Priority: sharedsched.Critical},
	}}
	noShares := Core("no shares", CoreOptions{Config: func(c *sharedsched.Config) { c.Variant.NoShares = true }})
	noCap := Core("no device cap", CoreOptions{Config: func(c *sharedsched.Config) { c.Variant.NoDeviceCap = true }})
	noBeside := without("none beside another", func(v *sharedsched.Variant) { v.NoBeside = true })
	for _, c := range []struct {
		name   string
		models []Model
		must   float64
		lack   *Maker // a variant under which somebody loses, so that the case is one
		gpu    bool   // nobody who runs one batch at a time could serve it
	}{
		{"heavy batches beside a trickle in a hurry", []Model{heavy, trickle}, 0.98, nil, false},
		{"heavier ones", []Model{with(heavy, func(m *Model) { m.Base = 17 * ms }), trickle}, 0.98, nil, false},
		{"more of them", []Model{with(heavy, func(m *Model) { m.Rate = 650 }), trickle}, 0.98, nil, false},
		{"lax requests that matter more beside urgent ones", []Model{mixed, {
			Name: "other", Base: ms, PerRow: 3 * ms / 10, MaxBatch: 64, Rate: 600, SLO: 200 * ms,
		}}, 0.99, nil, false},
		{"5 ms beside nine tenths of the device", []Model{
			{Name: "five", Base: ms / 2, PerRow: ms / 10, MaxBatch: 64, Rate: 50, SLO: 5 * ms},
			{Name: "load", Base: ms, PerRow: 3 * ms / 10, MaxBatch: 64, Rate: 2000, SLO: 200 * ms},
		}, 0.995, &noCap, false},
		{"a flood of unbatched requests", []Model{
			{Name: "flood", Base: 5 * ms, PerRow: ms, MaxBatch: 1, Rate: 600, SLO: 200 * ms},
			{Name: "modest", Base: 2 * ms, PerRow: ms / 2, MaxBatch: 16, Rate: 60, SLO: 50 * ms},
		}, 0.99, &noShares, false},
		{"20 ms beside batches of 80 ms that cannot be cut", []Model{
			{Name: "hurried", Base: ms, PerRow: ms / 4, MaxBatch: 16, Rate: 100, SLO: 20 * ms},
			{Name: "long", Base: 80 * ms, MaxBatch: 1, Rate: 8, SLO: 2 * time.Second},
		}, 0.98, &noBeside, true},
	} {
		w := Workload{Name: c.name, Models: c.models, Arrivals: []Process{{}}, Device: TypicalDevice}
		least := func(who *Maker, seed uint64) float64 {
			r, share := w.Play(who, 1, 20*time.Second, seed), 1.0
			for i, modest := range InShare(w.Models, r) {
				if modest {
					share = min(share, r.Flows[i].Share())
				}
			}
			return share
		}
		one, gpu := Core("one batch at a time", CoreOptions{}), Core("on a GPU", CoreOptions{Handover: Handover})
		for seed := range uint64(3) {
			for _, ours := range []*Maker{&one, &gpu} {
				must := c.must
				if ours == &gpu {
					must = min(must, 0.99) // the next batch begins a little before the last one ends
				}
				if share := least(ours, seed+1); share < must && (ours == &gpu || !c.gpu) {
					t.Errorf("%s, %s, seed %d: %.3f on time, want %.3f", c.name, ours.Name, seed+1, share, must)
				}
			}
			if c.lack == nil {
				continue
			}
			if share := least(c.lack, seed+1); share >= c.must {
				t.Errorf("%s, seed %d: %.3f on time with %s: this case proves nothing", c.name, seed+1, share, c.lack.Name)
			}
		}
	}
}

func with(m Model, change func(*Model)) Model {
	change(&m)
	return m
}

// TestBurstsOfAllAreNoFlood: five models that are asked in bursts which come to all at once, and together fill six
// tenths of the device. The bursts make flows ask for more than their shares again and again, but the device suffices
// for all: nobody is refused for the sake of a share.
func TestBurstsOfAllAreNoFlood(t *testing.T) {
	skipUnderRace(t)
	w := Workload{Models: equal(5, 30, 0.3, 1500)}
	toCapacity(w.Models)
	for i, part := range []float64{0.45, 0.25, 0.15, 0.1, 0.05} {
		demands(w.Models[i:i+1], part)
	}
	w.Arrivals = []Process{{Course: OnOff(50*time.Millisecond, 300*time.Millisecond), Together: true}}
	w.Device = TypicalDevice
	gpu := Core("on a GPU", CoreOptions{Handover: Handover})
	for seed := range uint64(3) {
		r := w.Play(&gpu, 0.6, 30*time.Second, seed+1)
		total := r.Total()
		if refused := total.Fates[Refused]; refused > 0 || total.Share() < 0.99 {
			t.Errorf("seed %d: of %d requests %d were refused and %.3f on time, want none and 0.99", seed+1, total.Offered,
				refused, total.Share())
		}
	}
}
