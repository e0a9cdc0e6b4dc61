package bench

import (
	"testing"
	"time"
)

// beside is a light model that wants answers within 20 ms and asks for less than its half of the device, together with
// a heavy one that would take batches of 80 ms and is called more often than it can answer.
func beside(span time.Duration) *scene {
	return &scene{
		models: map[string]string{
			"light": curve(1800*time.Microsecond, 200*time.Microsecond, "max_batch_size: 64"),
			"heavy": curve(5*time.Millisecond, time.Millisecond, "max_batch_size: 75"),
		},
		loads: []load{
			{model: "light", course: steady(150, span), limit: limit, target: lightTarget, seed: 1},
			{model: "heavy", course: steady(1500, span), limit: limit, seed: 2},
		},
	}
}

const lightTarget = 20 * time.Millisecond

func TestLightBesideHeavy(t *testing.T) {
	light := beside(20 * time.Second).inVirtualTime(t).calls[0]
	if share := light.share(lightTarget); share < 0.99 {
		t.Errorf("%.4f of the light model's calls were answered within %v, want 0.99", share, lightTarget)
	}
}

// flood calls a model ten times more often than it can answer, for five seconds, and then at 0.9 of its capacity.
func flood(model string, capacity float64) *scene {
	return &scene{
		models: map[string]string{"m": model},
		loads: []load{{model: "m", limit: limit, seed: 1, course: []stretch{
			{10 * capacity, floodEnd}, {0.9 * capacity, 5 * time.Second},
		}}},
	}
}

const floodEnd = 5 * time.Second

// recovered returns the calls that came once one target has passed since the flood.
func (p *played) recovered() calls { return p.calls[0].between(floodEnd+limit, time.Hour) }

func TestRecoveryFromOverload(t *testing.T) {
	p := flood(standard, capacity).inVirtualTime(t)
	if share := p.recovered().share(limit); share < 0.99 {
		t.Errorf("%.4f of the calls that came later than %v after the flood were answered in time, want 0.99", share,
			limit)
	}
	if during := p.calls[0].by(floodEnd, limit); float64(during) < 0.95*capacity*floodEnd.Seconds() {
		t.Errorf("%d calls were answered during the flood, of %.0f that could have been", during,
			capacity*floodEnd.Seconds())
	}
	if p.wasted > 0.005 {
		t.Errorf("%.2f %% of the device time went into answers that came too late", 100*p.wasted)
	}
}

// TestSaturation has 1.8 times the calls that can be answered.
func TestSaturation(t *testing.T) {
	const span = 8 * time.Second
	p := alone(1500, span).inVirtualTime(t)
	if n := p.calls[0].by(span, limit); float64(n) < 0.97*capacity*span.Seconds() {
		t.Errorf("%d calls were answered in time, of %.0f that could have been", n, capacity*span.Seconds())
	}
	if slow := p.calls[0].quantile(0.99); slow > limit {
		t.Errorf("1 %% of the answers took more than %v", slow)
	}
	if p.wasted > 0.005 {
		t.Errorf("%.2f %% of the device time went into answers that came too late", 100*p.wasted)
	}
}
