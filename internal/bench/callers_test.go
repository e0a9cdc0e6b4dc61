package bench

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/race"
)

// saturated is more calls of the standard model than it can answer, together with a caller.
func saturated(model string, caller load, span time.Duration) *scene {
	return &scene{
		models: map[string]string{"standard": standard, caller.model: model},
		loads:  []load{{model: "standard", course: steady(1500, span), limit: limit, seed: 1}, caller},
	}
}

// TestImpatientCaller: a caller that wants every answer within 1 ms, which cannot be, takes no more throughput from
// others than a caller without a target, and not more than the cost of its answers.
func TestImpatientCaller(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 2 seconds")
	}
	const span = 8 * time.Second
	undisturbed := alone(1500, span).inVirtualTime(t).calls[0].by(span, limit)
	tests := []struct {
		name, model string // of the caller
		manifest    string
		rate        float64
	}{
		{"of the same model", "standard", standard, 50},
		{"of a cheap model", "own", curve(1800*time.Microsecond, 200*time.Microsecond, "max_batch_size: 64"), 50},
		{"of a dear model", "own", standard, 10},
	}
	if race.Enabled {
		tests = tests[:1] // each takes ten seconds there
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			caller := load{model: test.model, course: steady(test.rate, span), limit: limit, seed: 2}
			patient := saturated(test.manifest, caller, span).inVirtualTime(t)
			caller.target = time.Millisecond
			impatient := saturated(test.manifest, caller, span).inVirtualTime(t)

			theirs, his := impatient.calls[0].by(span, limit), impatient.calls[1].by(span, limit)
			if before := patient.calls[0].by(span, limit); float64(theirs) < 0.98*float64(before) {
				t.Errorf("others were answered %d times, %d times beside a caller who does not say when", theirs,
					before)
			}
			left := float64(undisturbed - his) // of the same model every answer costs the same
			if test.model != "standard" {
				left = float64(undisturbed) * (1 - impatient.shares[1])
			}
			if float64(theirs) < 0.98*left {
				t.Errorf("others were answered %d times, %d times without him, of which his %d answers leave %.0f",
					theirs, undisturbed, his, left)
			}
		})
	}
}

// mixed is calls of the standard model. A part of them has a deadline of half a minute.
func mixed(rate, part float64, span time.Duration) *scene {
	return &scene{
		models: map[string]string{"standard": standard},
		loads: []load{
			{model: "standard", course: steady(rate*(1-part), span), limit: limit, seed: 1},
			{model: "standard", course: steady(rate*part, span), limit: safety, seed: 2},
		},
	}
}

const safety = 30 * time.Second

// TestSafetyDeadlines: a caller whose deadline is half a minute gets answers about as soon as others, and does not keep
// them from theirs.
func TestSafetyDeadlines(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 2 seconds")
	}
	const span = 10 * time.Second
	parts := []float64{0.1, 0.5}
	if race.Enabled {
		parts = parts[:1] // each takes five seconds there
	}
	for _, rate := range []float64{0.9 * capacity, 1.8 * capacity} {
		for _, part := range parts {
			t.Run(fmt.Sprintf("%.0f %% of %.0f per second", 100*part, rate), func(t *testing.T) {
				p := mixed(rate, part, span).inVirtualTime(t)
				others, caller := p.calls[0], p.calls[1]
				// They have the same chance of a place; the share of so many differs by that much (two standard errors).
				noise := 1 / math.Sqrt(float64(len(caller)))
				if share := caller.share(safety); share < others.share(limit)-noise {
					t.Errorf("%.3f of the caller's calls were answered, %.3f of the others'", share,
						others.share(limit))
				}
				if mine, theirs := caller.quantile(0.5), others.quantile(0.5); mine > 2*theirs {
					t.Errorf("the caller waits %v, others %v (medians)", mine, theirs)
				}
				answers := float64(others.by(span, limit) + caller.by(span, safety))
				if want := min(rate, capacity) * span.Seconds(); answers < 0.95*want {
					t.Errorf("%.0f answers, want 95 %% of %.0f", answers, want)
				}
				if p.wasted > 0.005 {
					t.Errorf("%.2f %% of the device time went into late answers", 100*p.wasted)
				}
			})
		}
	}
}
