package sim

import (
	"math"
	"time"
)

// rates estimates how many rows a second arrive at each line, forgetting arrivals longer ago than about tau. The
// estimates start from the models' rates, so that a policy is not judged by how it warms up.
type rates struct {
	tau   float64   // seconds
	rows  []float64 // by line: with old ones forgotten
	since []Time    // by line: when rows was up to date
}

func newRates(l *lines, tau time.Duration) rates {
	r := rates{tau: tau.Seconds(), rows: make([]float64, len(l.all)), since: make([]Time, len(l.all))}
	for i := range l.all {
		model := &l.env.Models[l.all[i].model]
		r.rows[i] = model.Rate / float64(max(model.Keys, 1)) * r.tau
	}
	return r
}

func (r *rates) arrive(now Time, line, rows int) {
	r.rows[line] = r.of(now, line)*r.tau + float64(rows)
	r.since[line] = now
}

// of returns the rows per second of a line.
func (r *rates) of(now Time, line int) float64 {
	age := float64(now-r.since[line]) / 1e9
	return r.rows[line] * math.Exp(-age/r.tau) / r.tau
}
