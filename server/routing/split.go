package routing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/catalog"
)

// part is a slot of a split.
type part struct {
	slot    string
	number  int64
	version *catalog.Version // nil unless it is ready
	weight  float64          // relative to the largest that is ready; 0 if it is too small to say
	seed    uint64
}

// split is the parts of a model's traffic by the name of the slot, so that the order in which they were written decides
// nothing.
type split []part

// newSplit returns the parts with weight of a model's traffic, and as its reserve those without, which answer when none
// of the others is ready. A model whose traffic was not divided has one part, the newest ready version, or none.
func newSplit(m *catalog.Model) (parts, reserve split) {
	largest, ready := 0.0, 0.0
	if m.Traffic != nil {
		for _, s := range m.Traffic.Split {
			p := part{
				slot: s.Name, number: s.Version, version: readyVersion(m, s.Version), weight: s.Weight,
				seed: hash(s.Name),
			}
			switch {
			case s.Weight == 0:
				p.weight = 1 // one is as good as another
				reserve = append(reserve, p)
			case s.Weight > 0 && !math.IsInf(s.Weight, 0):
				if largest = max(largest, s.Weight); p.version != nil {
					ready = max(ready, s.Weight)
				}
				parts = append(parts, p)
			}
		}
	}
	for i := range parts {
		parts[i].weight /= cmp.Or(ready, largest)
	}
	byName := func(a, b part) int { return strings.Compare(a.slot, b.slot) }
	slices.SortFunc(parts, byName)
	slices.SortFunc(reserve, byName)
	if newest := m.Newest(); newest != nil && len(parts) == 0 {
		return split{{
			slot: catalog.DefaultSlot, number: newest.Number, version: newest, weight: 1, seed: hash(catalog.DefaultSlot),
		}}, nil
	}
	return parts, reserve
}

// named returns the hash of the table that has the splits of a model, as answers name it. The package comment says what
// is in it.
func named(model uint64, parts, reserve split) string {
	if parts.largest() == nil {
		parts = reserve
	}
	for i := range parts {
		if p := &parts[i]; p.version != nil && p.weight > 0 {
			model = join(join(join(model, p.seed), uint64(p.number)), math.Float64bits(p.weight))
		}
	}
	return fmt.Sprintf("%016x", model)
}

// rank is the place of a part for one key: by score, then by name.
type rank struct {
	score float64
	index int
}

// before reports whether a part answers rather than another. Scores of two parts are hardly ever equal.
func (a rank) before(b rank) bool {
	return a.score < b.score || a.score == b.score && a.index < b.index
}

// beforeAll comes before every rank: scores are above 0.
var beforeAll = rank{0, -1}

// after returns the first part that comes after last, and whether there is one. It computes all scores anew, because
// nearly every request is answered by the first part: n parts that are all not ready take n² scores.
func (s split) after(key uint64, last rank) (rank, bool) {
	if len(s) == 1 { // whose score would decide nothing
		return rank{1, 0}, last == beforeAll
	}
	best, found := rank{}, false
	for i := range s {
		r := rank{-ln(uniform(join(key, s[i].seed))) / s[i].weight, i}
		if last.before(r) && (!found || r.before(best)) {
			best, found = r, true
		}
	}
	return best, found
}

// choose returns the part that answers a key: the first that is ready and that health allows, else the first that is
// ready, else nil. wanted is the part that the weights alone would have had.
func (s split) choose(model string, key uint64, health Health) (answers, wanted *part) {
	for r, more := s.after(key, beforeAll); more; r, more = s.after(key, r) {
		p := &s[r.index]
		if wanted == nil {
			wanted = p
		}
		if p.version == nil {
			continue
		}
		if len(s) == 1 || health == nil || health.Allow(model, p.number) {
			return p, wanted
		}
		if answers == nil {
			answers = p
		}
	}
	return answers, wanted
}

// fit reports whether each part takes what it is led to, so that what goes to a part is a fair draw.
func (s split) fit(model string, health Health) bool {
	return !slices.ContainsFunc(s, func(p part) bool {
		return p.version == nil || health != nil && !health.Fit(model, p.number)
	})
}

// largest returns the ready part with the most weight, nil if none is ready.
func (s split) largest() *part {
	var most *part
	for i := range s {
		if p := &s[i]; p.version != nil && (most == nil || p.weight > most.weight) {
			most = p
		}
	}
	return most
}
