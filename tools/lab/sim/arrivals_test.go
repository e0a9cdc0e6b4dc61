package sim

import (
	"math"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched/arrivals"
)

// windows counts the arrivals in each stretch of the given length.
func windows(times []time.Duration, length, span time.Duration) []float64 {
	counts := make([]float64, span/length)
	for _, at := range times {
		counts[at/length]++
	}
	return counts
}

// dispersion is the variance of counts over their mean: 1 for a Poisson process.
func dispersion(counts []float64) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += c
		squares += c * c
	}
	mean := sum / float64(len(counts))
	return (squares/float64(len(counts)) - mean*mean) / mean
}

func TestCourses(t *testing.T) {
	const span = 400 * time.Second
	times := func(p Process) []time.Duration {
		return arrivals.Gamma{Rate: 100, Course: p.Course(stream(3, 2), span)}.Times(span, stream(3, 1), nil)
	}
	onOff := times(Process{Course: OnOff(200*time.Millisecond, 800*time.Millisecond)})
	if rate := float64(len(onOff)) / span.Seconds(); math.Abs(rate/100-1) > 0.15 {
		t.Errorf("on-off: %.1f/s, want 100", rate)
	}
	if d := dispersion(windows(onOff, 100*time.Millisecond, span)); d < 20 {
		t.Errorf("on-off: dispersion %.1f in 100 ms, want far above 1", d)
	}
	if d := dispersion(windows(times(Process{Course: Course(1, Part{1, 1})}), 100*time.Millisecond,
		span)); d < 0.8 || d > 1.2 {
		t.Errorf("constant: dispersion %.2f in 100 ms, want 1", d)
	}
	// A sine's first half has 1 + 2/π·depth times the mean.
	var first float64
	halves := windows(times(Process{Course: Diurnal(10*time.Second, 0.5)}), 5*time.Second, span)
	for i := 0; i < len(halves); i += 2 {
		first += halves[i]
	}
	if got, want := first/(span.Seconds()/2)/100, 1+0.5*2/math.Pi; math.Abs(got-want) > 0.03 {
		t.Errorf("diurnal: %.3f times the mean in the first half of the period, want %.3f", got, want)
	}
	steps := windows(times(Process{Course: Course(4, Part{1, 1}, Part{2, 0}, Part{4, 3})}),
		span/4, span)
	for i, want := range []float64{1, 0, 3, 3} {
		if got := steps[i] / (span.Seconds() / 4) / 100; math.Abs(got-want) > 0.05 {
			t.Errorf("course: quarter %d has %.2f times the rate, want %g", i, got, want)
		}
	}
}

func TestTogether(t *testing.T) {
	w := Workload{
		Models:   equal(2, 1, 0.1, 100),
		Arrivals: []Process{{Course: OnOff(time.Second, 2*time.Second), Together: true}},
	}
	w.Models[0].Rate, w.Models[1].Rate = 100, 100
	// agree is the share of seconds in which both models have requests or both have none.
	agree := func() float64 {
		const span = 300 * time.Second
		var times [2][]time.Duration
		requests := w.Requests(1, span, 1)
		for i := range requests {
			m := requests[i].Model
			times[m] = append(times[m], time.Duration(requests[i].Arrival))
		}
		a, b := windows(times[0], time.Second, span), windows(times[1], time.Second, span)
		same := 0.0
		for i := range a {
			if (a[i] > 0) == (b[i] > 0) {
				same++
			}
		}
		return same / float64(len(a))
	}
	if got := agree(); got < 0.95 {
		t.Errorf("together: models agree in %.2f of the seconds", got)
	}
	w.Arrivals[0].Together = false
	if got := agree(); got > 0.8 {
		t.Errorf("each for itself: models agree in %.2f of the seconds", got)
	}
}

// TestSamePatternAtEveryLoad: a seed means the same pattern, only denser.
func TestSamePatternAtEveryLoad(t *testing.T) {
	w := Suite()[3]
	thin, dense := w.Requests(0.5, 8*time.Second, 5), w.Requests(1, 4*time.Second, 5)
	if len(thin) != len(dense) {
		t.Fatalf("%d requests at load 0.5 in 8 s, %d at load 1 in 4 s", len(thin), len(dense))
	}
	for i := range thin {
		if d := thin[i].Arrival - 2*dense[i].Arrival; thin[i].Model != dense[i].Model || d < -3 || d > 3 {
			t.Fatalf("request %d: %+v at load 0.5, %+v at load 1", i, thin[i], dense[i])
		}
	}
}
