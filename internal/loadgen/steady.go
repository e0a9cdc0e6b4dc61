package loadgen

import (
	"fmt"
	"math"
)

// Point is one of the sixty parts of a run, for curves over time.
type Point struct {
	AtS       float64 `json:"at_s"` // its end
	AnswersPS float64 `json:"answers_per_s"`
	GoodputPS float64 `json:"goodput_per_s"`
	FailedPS  float64 `json:"failed_per_s"`
	P50Ms     float64 `json:"p50_ms"`
	P99Ms     float64 `json:"p99_ms"`
}

// Third is a third of a run. The three are compared to see whether the run was steady.
type Third struct {
	Answers   int64   `json:"answers"`
	AnswersPS float64 `json:"answers_per_s"`
	P50Ms     float64 `json:"p50_ms"`
	P99Ms     float64 `json:"p99_ms"`
}

// cameLocked adds up what came back in the parts from one up to, but not including, another. The caller holds mu, as
// for the functions below.
func (t *tally) cameLocked(from, to int) came {
	var all came
	for i := range t.parts[from:to] {
		all.add(t.parts[from+i].came)
	}
	return all
}

// seriesLocked returns the first parts of the run, the ones that it had whole.
func (t *tally) seriesLocked(whole int) []Point {
	var series []Point
	for i := range whole {
		at, seconds := t.parts[i].latency.percentiles(50, 99), t.slice.Seconds()
		series = append(series, Point{
			AtS:       float64(i+1) * seconds,
			AnswersPS: float64(t.parts[i].answers) / seconds,
			GoodputPS: float64(t.parts[i].inTime) / seconds,
			FailedPS:  float64(t.parts[i].failures) / seconds,
			P50Ms:     at[0], P99Ms: at[1],
		})
	}
	return series
}

// thirdsLocked returns the thirds of a run that had so many whole parts, or nil if it is too short or has too few
// answers. One or two parts at the end may belong to none.
func (t *tally) thirdsLocked(whole int) []Third {
	n := whole / 3
	// Chance alone would tell the thirds of a few answers apart.
	if n == 0 || t.latency.TotalCount() < fewAnswers {
		return nil
	}
	thirds := make([]Third, 3)
	for i := range thirds {
		// The histogram keeps as many digits as the parts that are merged into it.
		all := newHistogram(2)
		for _, p := range t.parts[i*n : (i+1)*n] {
			all.Merge(p.latency.Histogram)
		}
		at := all.percentiles(50, 99)
		answers := t.cameLocked(i*n, (i+1)*n).answers
		thirds[i] = Third{
			Answers: answers, AnswersPS: float64(answers) / (float64(n) * t.slice.Seconds()),
			P50Ms: at[0], P99Ms: at[1],
		}
	}
	return thirds
}

// How far the thirds of a run may be apart before it is called unsteady: the greatest over the least. Percentiles of a
// tail vary more by chance than a median does, and a median more than a rate.
const (
	steadyRate = 1.1
	steadyP50  = 1.25
	steadyP99  = 2
	// tailAnswers is how many answers a third needs for its 99th percentile to be compared.
	tailAnswers = 500
	// fewAnswers of a whole run tell nothing.
	fewAnswers = 30
)

// unsteady says in what the thirds of a run differ by more than chance explains, or "" if they are alike.
func unsteady(thirds []Third) string {
	if len(thirds) == 0 {
		return ""
	}
	fewest := min(thirds[0].Answers, thirds[1].Answers, thirds[2].Answers)
	of := func(f func(Third) float64) [3]float64 { return [3]float64{f(thirds[0]), f(thirds[1]), f(thirds[2])} }
	for _, c := range []struct {
		name   string
		values [3]float64
		most   float64
		judged bool
	}{
		// Arrivals at random differ by chance: by less than four standard deviations of a Poisson process.
		{
			"answers per second", of(func(t Third) float64 { return t.AnswersPS }),
			steadyRate + 4/math.Sqrt(float64(max(fewest, 1))), true,
		},
		{"p50 in ms", of(func(t Third) float64 { return t.P50Ms }), steadyP50, fewest >= tailAnswers/10},
		{"p99 in ms", of(func(t Third) float64 { return t.P99Ms }), steadyP99, fewest >= tailAnswers},
	} {
		v := c.values
		if c.judged && max(v[0], v[1], v[2]) > c.most*min(v[0], v[1], v[2]) {
			return fmt.Sprintf("the thirds of the run differ: %s %.4g, %.4g, %.4g", c.name, v[0], v[1], v[2])
		}
	}
	return ""
}

// doubt says that this program was late itself, if that may have shaped the latencies: by more than 0.1 ms at p99, and
// by more than a tenth of the latency at p99 or a fifth at p50.
func doubt(lag, latency Quantiles) string {
	if lag.P99 <= 0.1 || lag.P99 <= latency.P99/10 && lag.P50 <= latency.P50/5 {
		return ""
	}
	return fmt.Sprintf("this program itself sent late, by %.3g ms at p50 and %.3g ms at p99, and the latencies count "+
		"that: send less, or run it on another machine", lag.P50, lag.P99)
}
