package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// key names a figure.
type key struct{ place, scene, target, figure string }

// series is a figure by round. A round whose run was thrown away is missing.
type series map[int]float64

// book is all figures of a run.
type book struct {
	figures map[key]series
	runs    map[string]int    // of open loops, by placement
	thrown  map[string]int    // of them, those in which the client was late
	others  map[string]series // by placement and run: the part of the machine that other programs used
}

func newBook() *book {
	return &book{figures: map[key]series{}, runs: map[string]int{}, thrown: map[string]int{}, others: map[string]series{}}
}

func (b *book) note(k key, round int, value float64) {
	if b.figures[k] == nil {
		b.figures[k] = series{}
	}
	b.figures[k][round] = value
}

// count counts a run of an open loop. One whose client was late says nothing of the server.
func (b *book) count(place string, late bool) {
	b.runs[place]++
	if late {
		b.thrown[place]++
	}
}

// disturb notes which part of the machine other programs used during a run.
func (b *book) disturb(place string, part float64) {
	if b.others[place] == nil {
		b.others[place] = series{}
	}
	b.others[place][len(b.others[place])] = 100 * part
}

// combine computes something of several figures, for each round that has them all.
func combine(compute func(v ...float64) float64, of ...series) series {
	result := series{}
	for round := range of[0] {
		var values []float64
		for _, s := range of {
			if v, there := s[round]; there {
				values = append(values, v)
			}
		}
		if len(values) == len(of) {
			result[round] = compute(values...)
		}
	}
	return result
}

// over is a ratio, taken within each round: what slows a whole round down does not change it.
func (s series) over(base series) series {
	return combine(func(v ...float64) float64 { return v[0] / v[1] }, s, base)
}

func (s series) minus(other series) series {
	return combine(func(v ...float64) float64 { return v[0] - v[1] }, s, other)
}

// median returns the middle one, or the mean of the two in the middle; NaN of none.
func (s series) median() float64 {
	v := slices.Sorted(maps.Values(s))
	if len(v) == 0 {
		return math.NaN()
	}
	if n := len(v) / 2; len(v)%2 == 0 {
		return (v[n-1] + v[n]) / 2
	}
	return v[len(v)/2]
}

// cell shows the median, and how far the rounds are apart.
func (s series) cell(format string) string {
	if len(s) == 0 {
		return "–"
	}
	text := show(format, s.median())
	if len(s) == 1 {
		return text
	}
	v := slices.Sorted(maps.Values(s))
	return fmt.Sprintf("%s (%s to %s)", text, show(format, v[0]), show(format, v[len(v)-1]))
}

func show(format string, v float64) string {
	if math.IsInf(v, 1) {
		return "never"
	}
	return fmt.Sprintf(format, v)
}
