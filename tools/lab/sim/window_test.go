package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// drawWindow draws a model, its load and its callers, and the largest batch so that two fit into a deadline.
func drawWindow(seed uint64) (w Workload, load float64, fits int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	base := 0.3 + 4*rng.Float64()
	perRow := base * (0.03 + 0.7*rng.Float64())
	slo := (4 + 30*rng.Float64()) * (base + perRow)
	w = suiteWorkload("window", "", 1, []Model{linear("only", base, perRow, slo, 1)})
	fits = max(1, int((slo/2.2-base)/perRow))
	w.Models[0].Rate = 1000 * float64(fits) / (base + perRow*float64(fits)) // all that it can do with those
	w.Models[0].Identities = slices.Repeat([]float64{1}, 1+rng.IntN(64))
	w.Device = Device{Noise: 0.01 + 0.15*rng.Float64(), Stalls: 0.001, StallFactor: 3}
	return w, 0.5 + 3*rng.Float64(), fits
}

// TestWindow: neither larger batches than deadlines leave time for, nor callers with flows of their own, make a device
// answer much less in time than one flow with the batches that suit it. The first three seeds are the worst of 400:
// half of their flows are beyond their shares, and those within take no others along.
func TestWindow(t *testing.T) {
	ours := OneLane(Policies())[0]
	seeds := []uint64{280, 354, 74}
	for seed := range uint64(24) {
		seeds = append(seeds, seed)
	}
	sum := 0.0
	for _, seed := range seeds {
		w, load, fits := drawWindow(seed)
		answered := func(most int, identities []float64) float64 {
			w.Models[0].MaxBatch, w.Models[0].Identities = most, identities
			total := w.Play(&ours, load, 4*time.Second, seed).Total()
			return float64(total.Fates[OnTime])
		}
		got := answered(8*fits, w.Models[0].Identities) / answered(fits, nil)
		if sum += got; got < 0.65 {
			t.Errorf("seed %d: %.2f of the answers in time", seed, got)
		}
	}
	if mean := sum / float64(len(seeds)); mean < 0.95 {
		t.Errorf("%.3f of the answers in time, in the mean", mean)
	}
}
