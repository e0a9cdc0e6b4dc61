package shadow

import (
	"cmp"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

const (
	// maxPrints bounds the outputs whose comparisons are kept in detail, of all pairs; at most 16 KiB of slices and 25
	// KiB of rows each, that is 11 MiB. Where there is no more room the pair that was offered nothing for the longest
	// loses its own.
	maxPrints = 256
	// maxPairPrints bounds those of one pair: the first ones of more.
	maxPairPrints = 8
)

// Detail says what a summary is to have besides counts.
type Detail struct {
	Fingerprints bool // with the spreads
	Worst        bool
}

// Print is how one output of a shadow differs, in detail.
type Print struct {
	RowElements int // of the latest row
	Varying     bool
	Elements    []Element // at most compare.MaxParts
	Slices      []Slice   // the oldest first
	// AuditedRows of the primary version are what is known of its noise, with Noise, their spread.
	AuditedRows   int64
	Errors, Noise Spread
	Worst         []Request // the worst first
}

// Element is an element of an output's row, or a run of Count neighbours from First on.
type Element struct {
	First, Count int
	Name         string // a label of the output; "" of more than one
	Floor        float64
	Source       FloorSource
}

// FloorSource is where a floor is from. Its numbers are those of weft.v1.FloorSource.
type FloorSource uint8

// The sources.
const (
	FromAudit      FloorSource = iota + 1 // the largest difference that audits saw
	LeastAudited                          // leastFloor: audits saw no difference
	LeastUnaudited                        // leastFloor: no row was audited
)

// Slice is what was compared in SliceDuration.
type Slice struct {
	Start  time.Time
	Rows   int64
	Errors []float32 // the largest differences, by element
}

// SliceDuration is the time of a slice.
const SliceDuration = 10 * time.Second

// imprint holds what is known of an output of a pair. Mirror.mu guards it.
type imprint struct {
	dtype  tensor.DType
	labels []string
	strip  strip
	spread Spread
	worst  worst
}

// markLocked takes in the comparison of a request: each of its outputs that are numbers, as far as there is room for
// them.
func (m *Mirror) markLocked(j *job, seen []*compare.Profile, now time.Time) {
	for _, s := range seen {
		p := m.printLocked(j.pair, s.Primary.Name)
		if p == nil {
			continue
		}
		if p.dtype != s.Primary.DType { // other files under the same number
			*p = imprint{dtype: s.Primary.DType}
		}
		p.labels = s.Primary.Labels
		p.strip.add(s, now)
		p.spread.add(s.Relative)
		p.worst.add(s, j.offer.RequestID, now)
	}
}

// printLocked returns the print of an output, nil if there is no room for it. It looks at all pairs where it is new.
func (m *Mirror) printLocked(of *pair, name string) *imprint {
	if p := of.prints[name]; p != nil {
		return p
	}
	if len(of.prints) == maxPairPrints || m.pairs[of.key] != of { // it was forgotten meanwhile
		return nil
	}
	prints := 0
	var oldest *pair // of the others that have some
	for _, p := range m.pairs {
		prints += len(p.prints)
		if p != of && len(p.prints) > 0 && (oldest == nil || p.last < oldest.last) {
			oldest = p
		}
	}
	if prints == maxPrints {
		clear(oldest.prints)
	}
	of.prints[name] = &imprint{}
	return of.prints[name]
}

// describeLocked adds details to the summary of a pair. What it adds shares nothing that changes with what Mirror.mu
// guards.
func (m *Mirror) describeLocked(p *pair, s *Summary, d Detail, now time.Time) {
	for i := range s.Outputs {
		out := &s.Outputs[i]
		kept := p.prints[out.Name]
		if kept == nil {
			continue
		}
		out.Print = &Print{}
		if d.Fingerprints {
			kept.show(out.Print, cmp.Or(m.noises[output{p.model, p.primary, out.Name}], &noise{}), now)
		}
		if d.Worst {
			out.Print.Worst = slices.Clone(kept.worst)
		}
	}
}

// show writes the fingerprint and the spreads. The floor of a part is the largest difference that audits of the primary
// saw there; where they saw none, it is a few units in the last place.
func (p *imprint) show(out *Print, n *noise, now time.Time) {
	var magnitude float64
	out.Slices, magnitude = p.strip.shown(now)
	out.RowElements, out.Varying, out.Errors = p.strip.size, p.strip.varying, p.spread
	out.AuditedRows, out.Noise = n.rows, n.spread
	least, source := leastFloor(p.dtype, magnitude), LeastUnaudited
	if n.rows > 0 {
		source = LeastAudited
	}
	for i := range p.strip.n {
		first, next := compare.StartOf(i, p.strip.n, p.strip.size), compare.StartOf(i+1, p.strip.n, p.strip.size)
		e := Element{First: first, Count: next - first, Floor: least, Source: source}
		if e.Count == 1 && first < len(p.labels) {
			e.Name = shorten(p.labels[first], maxName)
		}
		if seen := n.of(i, p.strip.n); seen > 0 {
			e.Floor, e.Source = seen, FromAudit
		}
		out.Elements = append(out.Elements, e)
	}
}
