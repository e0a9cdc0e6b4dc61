package proof

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

const (
	// roughly is by how many times its tolerance a value may be off through rounding alone: kernels of another size add
	// in another order.
	roughly = 10
	// recentRows is of how many of the latest rows the usual magnitude is the median.
	recentRows = 15
)

// Audited is a row of a live batch that is compared with its result alone.
type Audited struct {
	// Outputs are all of the version's, and Wanted the places of the ones that were asked for; nil: all.
	Outputs []tensor.Spec
	Wanted  []int
	// Size is that of the execution which answered it, with padding.
	Size int
	// Tolerance is the one that the manifest states, 0 for none.
	Tolerance float64
	// Rounds: the proof found rounding beyond the tolerance.
	Rounds bool
}

// place returns the place of wanted output i.
func (r *Audited) place(i int) int {
	if r.Wanted == nil {
		return i
	}
	return r.Wanted[i]
}

// Output returns the declaration of wanted output i.
func (r *Audited) Output(i int) *tensor.Spec { return &r.Outputs[r.place(i)] }

// Difference is the worst of an answer, relative to the scale of its elements.
type Difference struct {
	// Text says what is wrong; "" if it is tolerated.
	Text string
	// Rounding: nothing in it is too much for that.
	Rounding bool

	far float64
}

// Wrong reports whether an answer differs by more than is tolerated.
func (d Difference) Wrong() bool { return d.Text != "" }

// Seen is the knowledge of a version's outputs from rows that were run alone. It is immutable; the zero value has seen
// nothing.
type Seen struct {
	random map[int]bool      // outputs that are something else each time, which are not compared
	recent map[int][]float64 // by output: the magnitudes of the latest rows; see usual
}

// Compare compares an answer of the row with its result alone. Each element is measured by itself, so that none hides
// behind a larger one next to it: relative to its own magnitude, or the one that three in four of its row are above,
// since an element far below the others may be a remainder that rounding left of them. A tolerance that the manifest
// states is relative to the usual magnitude, as it is in the proof, and so is the bound of what passes for rounding.
func (s Seen) Compare(row *Audited, got, alone []tensor.Tensor) (worst Difference) {
	worst.Rounding = true
	for i := range alone {
		o := row.place(i)
		if s.random[o] || bytes.Equal(got[i].Data, alone[i].Data) && slices.Equal(got[i].Shape, alone[i].Shape) {
			continue
		}
		spec := &row.Outputs[o]
		own, usual := s.scales(o, alone[i])
		scale, least := own, 0.0
		if row.Tolerance > 0 {
			scale, least = usual, floor
		}
		tolerated := tolerated(row.Tolerance, spec.DType)
		far, err := compare.Relative(got[i], alone[i], scale, least)
		text := inWords(spec, far, err, tolerated, fmt.Sprintf("in a batch of %d rows", row.Size))
		if text == "" {
			continue
		}
		loosely, _ := compare.Relative(got[i], alone[i], usual, floor)
		most := rough(roughly, tolerated)
		if row.Rounds {
			most = max(most, roundingBound)
		}
		worst.Rounding = worst.Rounding && loosely <= most
		if worst.Text == "" || far > worst.far {
			worst.far, worst.Text = far, text
		}
	}
	return worst
}

// scales returns, by element, the magnitude of a row's output alone, or the one that three in four of its elements are
// above where that is more; and as usual the same, or the output's usual magnitude where that is more than either.
func (s Seen) scales(o int, alone tensor.Tensor) (own, usual []float64) {
	if !alone.DType.IsFloat() {
		return nil, nil
	}
	own = scales([]tensor.Tensor{alone})
	low, typical := ranked(own, 4), s.usual(o)
	usual = make([]float64, len(own))
	for e := range own {
		own[e] = max(own[e], low)
		usual[e] = max(own[e], typical)
	}
	return own, usual
}

// ranked returns the value that one part-th of them are not above. Of many it looks at some.
func ranked(values []float64, part int) float64 {
	return rankedOf(len(values), func(i int) float64 { return values[i] }, part)
}

// middling returns the median magnitude of a tensor's elements.
func middling(t tensor.Tensor) float64 {
	return rankedOf(len(t.Data)/t.DType.Size(), func(i int) float64 { return compare.Magnitude(t, i) }, 2)
}

// someValues is how many values are enough to tell their rank.
const someValues = 1024

func rankedOf(n int, value func(int) float64, part int) float64 {
	if n == 0 {
		return 0
	}
	some := make([]float64, min(n, someValues))
	for i := range some {
		at := i
		if n > someValues { // places in no order, for every n-th value may be of one column
			at = int(uint64(i) * 0x9e3779b97f4a7c15 % uint64(n))
		}
		some[i] = value(at)
	}
	slices.Sort(some)
	return some[(len(some)-1)/part]
}

// usual returns the median magnitude of an output in the latest rows: a small output, such as a single number that is
// near zero for once, does not show it by itself. A few huge rows do not move it.
func (s Seen) usual(o int) float64 { return ranked(s.recent[o], 2) }

// Learn takes in the result of a row alone.
func (s Seen) Learn(row *Audited, alone []tensor.Tensor) Seen {
	recent := map[int][]float64{}
	maps.Copy(recent, s.recent)
	for i := range alone {
		if alone[i].DType.IsFloat() {
			o := row.place(i)
			before := recent[o][max(0, len(recent[o])-recentRows+1):]
			recent[o] = append(slices.Clip(before), middling(alone[i]))
		}
	}
	return Seen{random: s.random, recent: recent}
}

// Random returns the places of the outputs of a row that were something else the second time it was run alone.
func (s Seen) Random(row *Audited, again, alone []tensor.Tensor) (places []int) {
	for i := range alone {
		of := *row
		of.Wanted = []int{row.place(i)}
		if s.Compare(&of, again[i:i+1], alone[i:i+1]).Wrong() {
			places = append(places, of.Wanted[0])
		}
	}
	return places
}

// Without ends the comparison of the outputs at some places.
func (s Seen) Without(places []int) Seen {
	random := map[int]bool{}
	maps.Copy(random, s.random)
	for _, o := range places {
		random[o] = true
	}
	return Seen{random: random, recent: s.recent}
}

// LeftOut reports whether there is nothing to compare of a row with so many outputs.
func (s Seen) LeftOut(row *Audited, outputs int) bool {
	for i := range outputs {
		if !s.random[row.place(i)] {
			return false
		}
	}
	return true
}

// AllLeftOut reports whether there is nothing to compare of any row of a version with so many outputs.
func (s Seen) AllLeftOut(outputs int) bool { return len(s.random) == outputs }
