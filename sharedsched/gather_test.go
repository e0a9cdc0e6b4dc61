package sharedsched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// gathering is a crowd on a device whose batches cost five milliseconds, and a little for each row.
type gathering struct {
	seed    uint64
	device  Device
	row     time.Duration
	callers int // 0: an open loop
	most    int // rows of a batch
	again   func(rng *rand.Rand) time.Duration
}

// answered returns how many were answered in ten seconds, and the mean and the 99th percentile of how long that took.
func (g *gathering) answered(t *testing.T, v Variant) (n int, mean, p99 time.Duration) {
	t.Helper()
	w, rng := newWaiting(t, g.device, v), rand.New(rand.NewPCG(g.seed, 2))
	of := w.ask(crowd{
		n: max(1, g.callers), open: g.callers == 0, again: func() time.Duration { return g.again(rng) },
		version: w.add(1, Settings{Batched: true, MaxBatchSize: g.most, MaxQueue: 1000}, func(rows int) time.Duration {
			return 5*time.Millisecond + time.Duration(rows)*g.row
		}),
	})
	w.until(Time(10 * time.Second))
	slices.Sort(of.took)
	n = len(of.took)
	for _, took := range of.took {
		mean += took / time.Duration(n)
	}
	return n, mean, of.took[n*99/100]
}

// over returns the ratios of those figures to the ones of a device that waits for nobody.
func (g *gathering) over(t *testing.T) (n, mean, p99 float64) {
	t.Helper()
	n1, mean1, late1 := g.answered(t, Variant{})
	n0, mean0, late0 := g.answered(t, Variant{NoAwait: true})
	return float64(n1) / float64(n0), float64(mean1) / float64(mean0), float64(late1) / float64(late0)
}

// TestGather: where the rows of a batch cost little, a third more are answered of callers who ask again when they are
// answered. An open loop hardly notices: what comes by chance is seldom taken for callers who are back.
func TestGather(t *testing.T) {
	devices := []Device{{Name: "d", Lanes: 1}, {Name: "d", Lanes: 2, Handover: time.Millisecond}}
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := gathering{seed: seed, device: devices[seed%2], row: time.Duration(rng.IntN(100_000)), callers: 2 + rng.IntN(16)}
		if g.most = 64; seed%3 == 0 {
			g.most = g.callers // all of them are a full batch
		}
		pause, noise := 50_000+350_000*rng.Float64(), rng.Float64()
		g.again = func(rng *rand.Rand) time.Duration {
			return time.Duration(pause * (1 - noise + noise*rng.ExpFloat64()))
		}
		if n, _, _ := g.over(t); n < 1.33 {
			t.Errorf("seed %d: %d callers who pause for %.0f ns with noise %.2f, %v a row: %.2f times the answers", seed,
				g.callers, pause, noise, g.row, n)
		}
		g.most = 64
		gap := float64(time.Second) / (50 + 2000*rng.Float64())
		g.callers, g.again = 0, func(rng *rand.Rand) time.Duration { return time.Duration(gap * rng.ExpFloat64()) }
		if _, mean, p99 := g.over(t); mean > 1.02 || p99 > 1.05 {
			t.Errorf("seed %d: a request each %.0f ns, %v a row: mean %.3f and p99 %.3f", seed, gap, g.row, mean, p99)
		}
	}
}

// TestGatherEndsForOthers: a device that waits for callers starts a batch at once when a task of another flow comes.
func TestGatherEndsForOthers(t *testing.T) {
	w := newWaiting(t, Device{Name: "d", Lanes: 1}, Variant{})
	s := Settings{Batched: true, MaxBatchSize: 64}
	w.ask(crowd{n: 4, pause: time.Millisecond, version: w.add(1, s, fixed)})
	other := w.add(1, s, fixed)
	for d := w.c.devices[0]; d.gathers == nil; {
		if w.until(w.now + 1); w.now > Time(time.Second) {
			t.Fatal("the device waits for nobody")
		}
	}
	if len(w.runs) > 0 {
		t.Fatal("it runs a batch meanwhile")
	}
	if w.c.HasWork(w.now, 0) {
		t.Error("it does not wait")
	}
	if _, _, err := w.c.Submit(w.now, other, &Task{Rows: 1}, Never, nil); err != nil {
		t.Fatal(err)
	}
	if !w.c.HasWork(w.now, 0) {
		t.Error("it waits on although another flow has a task")
	}
}
