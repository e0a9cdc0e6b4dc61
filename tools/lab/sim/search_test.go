package sim

import (
	"math"
	"testing"
	"time"
)

// waitsAtMost is the probability that a request waits no longer than t in an M/D/1 queue with service time 1 and load
// rho (Erlang 1909): (1-ρ) Σ (-ρ(t-k))^k/k! · e^(ρ(t-k)), k from 0 to ⌊t⌋.
func waitsAtMost(t, rho float64) float64 {
	sum := 0.0
	for k := 0; float64(k) <= t; k++ {
		factorial, _ := math.Lgamma(float64(k) + 1)
		x := rho * (t - float64(k))
		sum += math.Pow(-x, float64(k)) / math.Exp(factorial) * math.Exp(x)
	}
	return (1 - rho) * sum
}

// alone is a policy that nothing is tuned of.
func alone(m *Maker) *Family { return &Family{Name: m.Name, Members: []Maker{*m}} }

// TestG99OfMD1 searches for the load that an M/D/1 queue carries: one model without batching, served in order of
// arrival.
func TestG99OfMD1(t *testing.T) {
	skipUnderRace(t)
	const cost, slo = 10, 45 // in ms: a request may wait for 3.5 executions
	m := linear("m", cost, 0, slo, 100)
	m.MaxBatch = 1
	w := Workload{Models: []Model{m}, Arrivals: []Process{{}}}
	fifo := Maker{Name: "fifo", New: func(e *Env) Policy { return &script{env: e, next: inOrder(1)} }}
	got, _ := G99(&w, alone(&fifo), Effort{Span: 2000 * time.Second, Seeds: 2, Precision: 0.002})
	low, high := 0.0, 1.0
	for range 50 {
		if mid := (low + high) / 2; waitsAtMost(float64(slo)/cost-1, mid) >= 0.99 {
			low = mid
		} else {
			high = mid
		}
	}
	if math.Abs(got/low-1) > 0.01 {
		t.Errorf("g99 %.4f of the capacity, the formula gives %.4f", got, low)
	}
}

func TestBracket(t *testing.T) {
	for _, want := range []float64{0.02, 0.3, 0.999, 1, 1.3, 20} {
		runs := 0
		got := bracket(func(load float64) bool { runs++; return load <= want }, 1, 0.01)
		if got > want || got < want/1.01 {
			t.Errorf("found %.4f of %.4f", got, want)
		}
		if runs > 30 {
			t.Errorf("%d runs to find %.4f", runs, want)
		}
	}
	if got := bracket(func(float64) bool { return false }, 1, 0.01); got != 0 {
		t.Errorf("found %.4f where nothing is carried", got)
	}
	if got := bracket(func(float64) bool { return true }, 1, 0.01); got != highest {
		t.Errorf("found %.4f where everything is carried", got)
	}
}

// TestG99OfAFamily finds the best member wherever it stands.
func TestG99OfAFamily(t *testing.T) {
	w := inSuite("single")
	small := func(name string, n int) Maker {
		return Maker{Name: name, New: func(e *Env) Policy { return &script{env: e, next: inOrder(n)} }}
	}
	a, b, c := small("one", 1), small("many", 32), small("few", 4)
	want, _ := G99(w, alone(&b), Quick)
	for _, members := range [][]Maker{{a, b, c}, {b, a, c}, {a, c, b}} {
		got, who := G99(w, &Family{Members: members}, Quick)
		if len(who) != 1 || who[0] != "many" || math.Abs(got/want-1) > Quick.Precision {
			t.Errorf("family has %.3f by %s, want %.3f by many", got, who, want)
		}
	}
}

// TestG99OfDraws: the load carried of models that were drawn several times is the geometric mean, each with the best
// member for it.
func TestG99OfDraws(t *testing.T) {
	w := suiteWorkload("one", "", 1, []Model{linear("cheap rows", 4, 0.4, 100, 1)},
		[]Model{linear("dear rows", 1, 8, 50, 1)})
	few := Maker{Name: "few", New: func(e *Env) Policy { return &script{env: e, next: inOrder(2)} }}
	many := Maker{Name: "many", New: func(e *Env) Policy { return &script{env: e, next: inOrder(32)} }}
	want := 1.0
	for i, draw := range w.draws() {
		a, _ := G99(&draw, alone(&few), Quick)
		b, _ := G99(&draw, alone(&many), Quick)
		if i == 0 && a >= b {
			t.Fatalf("on the first draw few carries %.3f, many %.3f: this test proves nothing", a, b)
		}
		want *= max(a, b)
	}
	got, tuned := G99(&w, &Family{Members: []Maker{few, many}}, Quick)
	if math.Abs(got/math.Sqrt(want)-1) > Quick.Precision || len(tuned) != 2 || tuned[0] != "many" {
		t.Errorf("carries %.3f with %v; want %.3f", got, tuned, math.Sqrt(want))
	}
}
