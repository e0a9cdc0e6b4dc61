package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// TestGenerateIsWide: what is drawn covers the cases in which schedulers were found to collapse, each more than once in
// 200 workloads, and the same seed draws the same.
func TestGenerateIsWide(t *testing.T) {
	has := map[string]func(*Generated) bool{
		"one model":      func(g *Generated) bool { return len(g.Workload.Models) == 1 },
		"forty models":   func(g *Generated) bool { return len(g.Workload.Models) >= 40 },
		"microseconds":   anyModel(func(m *Model) bool { return m.Cost(1) < 100*time.Microsecond }),
		"100 ms":         anyModel(func(m *Model) bool { return m.Cost(1) > 100*time.Millisecond }),
		"flat":           anyModel(func(m *Model) bool { return m.PerRow*50 < m.Base }),
		"steep":          anyModel(func(m *Model) bool { return m.PerRow*2 > m.Base }),
		"unbatched":      anyModel(func(m *Model) bool { return m.MaxBatch == 1 }),
		"urgent":         anyModel(func(m *Model) bool { return m.SLO <= 10*time.Millisecond }),
		"patient":        anyModel(func(m *Model) bool { return m.SLO >= 8*time.Second }),
		"mixed wishes":   anyModel(func(m *Model) bool { return len(m.Mix) > 1 }),
		"shapes":         anyModel(func(m *Model) bool { return m.Keys > 1 }),
		"cold":           anyModel(func(m *Model) bool { return m.Cold }),
		"a trickle":      func(g *Generated) bool { return strings.Contains(g.Workload.About, "trickle") },
		"a flood":        func(g *Generated) bool { return strings.Contains(g.Workload.About, "floods") },
		"much noise":     func(g *Generated) bool { return g.Workload.Device.Noise >= 0.5 },
		"stalls":         func(g *Generated) bool { return g.Workload.Device.StallFactor >= 10 },
		"wrong profiles": func(g *Generated) bool { return g.Workload.Error != nil },
		"changes":        func(g *Generated) bool { return g.Workload.Pace != nil },
		"robots":         anyArrivals(func(p *Process) bool { return p.Every > 0 }),
		"bursts":         anyArrivals(func(p *Process) bool { return p.CV >= 3 }),
		"all at once":    anyArrivals(func(p *Process) bool { return p.Together }),
		"500 µs":         anyModel(func(m *Model) bool { return m.SLO < time.Millisecond }),
		"weights":        anyModel(func(m *Model) bool { return m.Weight > 1 }),
		"shadows":        anyModel(func(m *Model) bool { return len(m.Mix) > 0 && m.Mix[0].Priority == sharedsched.Sheddable }),
		"cold, to 256":   anyModel(func(m *Model) bool { return m.Cold && m.MaxBatch == 256 }),
		"closed loops":   anyArrivals(func(p *Process) bool { return p.Think > 0 }),
		"bursts of 10 s": func(g *Generated) bool { return strings.Contains(g.Workload.About, "in bursts of") },
		"half load":      func(g *Generated) bool { return g.Load <= 0.5 },
		"nine tenths":    func(g *Generated) bool { return g.Load == 0.9 },
		"ten times":      func(g *Generated) bool { return g.Load == 10 },
		"a lax wish that matters more": anyModel(func(m *Model) bool {
			return slices.ContainsFunc(m.Mix, func(lax Wish) bool {
				return lax.Priority == sharedsched.CriticalPlus && slices.ContainsFunc(m.Mix, func(w Wish) bool {
					return w.Priority == sharedsched.Critical && w.SLO < lax.SLO
				})
			})
		}),
	}
	count := map[string]int{}
	for seed := range uint64(200) {
		g, again := Generate(seed), Generate(seed)
		if g.Workload.About != again.Workload.About || !reflect.DeepEqual(g.Workload.Models, again.Workload.Models) {
			t.Fatalf("seed %d draws %s, and then %s", seed, g.Workload.About, again.Workload.About)
		}
		for name, is := range has {
			if is(&g) {
				count[name]++
			}
		}
		if n := len(g.Workload.Requests(1, g.Span, 1)); n < fewestRequests/4 && !g.Workload.waits() || n > 4*mostRequests {
			t.Errorf("%d requests in %v: %s", n, g.Span, g.Workload.About)
		}
	}
	for name := range has {
		if count[name] < 2 {
			t.Errorf("%s: %d of 200 workloads", name, count[name])
		}
	}
}

func anyModel(is func(*Model) bool) func(*Generated) bool {
	return func(g *Generated) bool {
		return slices.ContainsFunc(g.Workload.Models, func(m Model) bool { return is(&m) })
	}
}

func anyArrivals(is func(*Process) bool) func(*Generated) bool {
	return func(g *Generated) bool {
		return slices.ContainsFunc(g.Workload.Arrivals, func(p Process) bool { return is(&p) })
	}
}

// TestRobotsAct at the same moments, as many as the rate asks for.
func TestRobotsAct(t *testing.T) {
	p := Process{Every: 50 * time.Millisecond, Jitter: 5 * time.Millisecond}
	for _, rate := range []float64{3, 20, 510} {
		const span = 10 * time.Second
		times := p.times(rate, 0, nil, span, stream(1, 2), nil)
		if n := float64(len(times)); n < rate*10-2 || n > rate*10+2 {
			t.Errorf("%v a second: %v in %v", rate, n, span)
		}
		for _, at := range times {
			if at%p.Every >= p.Jitter || at >= span {
				t.Errorf("%v a second: one asks at %v", rate, at)
			}
		}
		if !slices.IsSorted(times) {
			t.Errorf("%v a second: the times are in no order", rate)
		}
	}
}

// TestWishes: callers want what the mix says, in its proportions, and the server's scheduler learns their priorities.
func TestWishes(t *testing.T) {
	m := linear("mixed", 1, 0.1, 100, 1000)
	m.Mix = []Wish{
		{Share: 3, SLO: 10 * time.Millisecond},
		{Share: 1, SLO: time.Second, Priority: sharedsched.CriticalPlus},
	}
	w := Workload{Models: []Model{m}, Arrivals: []Process{{}}}
	count := map[string]int{}
	requests := w.Requests(1, 10*time.Second, 1)
	for i := range requests {
		r := &requests[i]
		count[fmt.Sprint(r.Deadline.Sub(r.Arrival), r.Priority)]++
	}
	soon, plus := count["10ms 0"], count["1s 1"]
	if soon+plus != len(requests) || plus < len(requests)/5 || plus > len(requests)/3 {
		t.Errorf("of %d requests: %v", len(requests), count)
	}
	p := newCorePolicy(&Env{Models: w.Models, Lanes: 1, drop: func(Time, *Request, Fate) {}}, CoreOptions{})
	for i := range 20 {
		r := &requests[i]
		p.Arrive(r.Arrival, r)
		if p.task.Priority != r.Priority || p.task.Target != r.Deadline.Sub(r.Arrival) {
			t.Errorf("the scheduler got %+v for %+v", p.task, *r)
		}
	}
}

// TestCallersWait for their answers before they ask again, and their requests are counted like all others; shadows are
// counted apart.
func TestCallersWait(t *testing.T) {
	think := linear("thinks", 1, 0.1, 100, 100)
	shadow := linear("shadow", 1, 0.1, 1000, 10)
	shadow.Mix = []Wish{{Share: 1, SLO: time.Second, Priority: sharedsched.Sheddable}}
	w := Workload{
		Models: []Model{think, shadow}, Device: TypicalDevice,
		Arrivals: []Process{{Think: 50 * time.Millisecond}, {}},
	}
	const span = 10 * time.Second
	for _, p := range Policies() {
		r := w.Play(&p, 1, span, 1)
		asked, shadows := r.Flows[0], r.Shadows
		// Ten callers, of whom each asks about every 50 ms and the time of an answer.
		if n := asked.Offered; n < 1000 || n > 2000 || asked.Fates[OnTime]+asked.missed() != n {
			t.Errorf("%s: %+v", p.Name, asked)
		}
		if n := shadows.Offered; n < 50 || n > 150 || shadows.Fates[OnTime]+shadows.missed() != n || r.Flows[1].Offered > 0 {
			t.Errorf("%s: shadows %+v", p.Name, shadows)
		}
		if len(r.requests) != 10+shadows.Offered {
			t.Errorf("%s: %d callers and shadows", p.Name, len(r.requests))
		}
	}
}
