package main

import (
	"fmt"
	"slices"
	"strings"
)

// book is all that was measured.
type book struct {
	balanced map[[2]string][]sample // by cell and policy
	judged   []promise              // of the other parts
	rows     map[string][][]string  // of tables, by part
}

func newBook() book {
	return book{balanced: map[[2]string][]sample{}, rows: map[string][][]string{}}
}

func (b *book) note(cell, policy string, s sample) {
	k := [2]string{cell, policy}
	b.balanced[k] = append(b.balanced[k], s)
}

// promise is what callers may expect, and what they got in each round.
type promise struct {
	what   string
	got    []float64
	format string
	aim    float64
	most   bool // the aim is the most that it may be, not the least
}

// met compares the median. What was not measured is not met.
func (p *promise) met() bool {
	if len(p.got) == 0 {
		return false
	}
	m := median(p.got)
	return p.most && m <= p.aim || !p.most && m >= p.aim
}

func (p *promise) row() []string {
	sign, word := "≥ ", "yes"
	if p.most {
		sign = "≤ "
	}
	if !p.met() {
		word = "NO"
	}
	return []string{p.what, show(p.format, p.got), sign + fmt.Sprintf(p.format, p.aim), word}
}

func allMet(all []promise) bool {
	return !slices.ContainsFunc(all, func(p promise) bool { return !p.met() })
}

// none promises that something did not happen, which is not a matter of medians.
func (b *book) none(what string, happened int) {
	b.judged = append(b.judged, promise{what, []float64{float64(happened)}, "%.0f", 0, true})
}

// Aims of the policies that heed load reports, beside the part in time.
const (
	mostOfBase  = 0.3   // of the p99 of round robin, where the servers differ
	worseThan   = 0.005 // in time, than round robin, where they are equal
	mostOfEqual = 1.15  // of the p99 of round robin, where they are equal
)

// promises judges a cell, each policy by round robin in the same round: what slows a whole round down changes neither.
// Where servers are equal it is that of the same balancer, whose own time is in both.
func (b *book) promises(c *cell) (all []promise) {
	for i := range policies {
		p := &policies[i]
		rival := roundRobin
		if c.name == equalCell && p.through == envoyName {
			rival = envoyRival
		}
		got, base := b.balanced[[2]string{c.name, p.name}], b.balanced[[2]string{c.name, rival}]
		if p.least == 0 || len(got) == 0 {
			continue
		}
		var inTime, lost, ratio []float64
		for n := range min(len(got), len(base)) {
			inTime = append(inTime, 100*got[n].inTime)
			lost = append(lost, 100*(base[n].inTime-got[n].inTime))
			ratio = append(ratio, got[n].p99/base[n].p99)
		}
		what := c.about + ": " + p.name
		if c.name == equalCell {
			all = append(all,
				promise{what + ": points fewer in time than " + rival, lost, "%.2f", 100 * worseThan, true},
				promise{what + ": p99 over that of " + rival, ratio, "%.2f", mostOfEqual, true})
			continue
		}
		all = append(all,
			promise{what + ": in time, %", inTime, "%.2f", 100 * p.least, false},
			promise{what + ": p99 over that of " + rival, ratio, "%.2f", mostOfBase, true})
	}
	return all
}

// median returns the middle one, or the mean of the two in the middle.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v) / 2
	if len(v)%2 == 0 {
		return (v[n-1] + v[n]) / 2
	}
	return v[n]
}

// show shows the median, and how far the rounds are apart.
func show(format string, v []float64) string {
	switch len(v) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf(format, v[0])
	}
	return fmt.Sprintf(strings.ReplaceAll("F (F to F)", "F", format), median(v), slices.Min(v), slices.Max(v))
}
