package shadow

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// maxNoises bounds the outputs whose noise is known: of more, the one that was audited longest ago is forgotten. Each
// takes less than 1 KiB.
const maxNoises = 512

// noise is by how much a version differs from itself, in one output: rows that were answered in batches, and the same
// rows run alone. A shadow that differs by no more cannot be told from the version itself. Mirror.mu guards it.
type noise struct {
	output
	parts
	rows   int64
	errors [compare.MaxParts]float32 // the largest finite ones
	spread Spread
	last   uint64 // Mirror.clock when it was added to
}

// output names an output of a version.
type output struct {
	model   string
	version int64
	name    string
}

// Audited takes in one output of a row as the version answered it in a batch, and as it answers it alone. The tensors
// are not kept. Outputs that are no numbers, or of different shapes, say nothing.
func (m *Mirror) Audited(model string, version int64, batched compare.Output, alone tensor.Tensor) {
	s := compare.ProfileOf(&batched, alone)
	if s == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := output{model, version, batched.Name}
	n := m.noises[of]
	if n == nil {
		if len(m.noises) == maxNoises {
			oldest := slices.MinFunc(slices.Collect(maps.Values(m.noises)), func(a, b *noise) int {
				return cmp.Compare(a.last, b.last)
			})
			delete(m.noises, oldest.output)
		}
		n = &noise{output: of}
		m.noises[of] = n
	}
	m.clock++
	n.last = m.clock
	n.add(s)
}

// add takes in a row. Where it is divided more finely than those before, what was known of a part is taken to hold for
// each of the parts that it is divided into. It changes s.
func (n *noise) add(s *compare.Profile) {
	before := n.errors
	if old := n.n; n.admit(s) && old > 0 {
		for i := range n.n {
			n.errors[i] = before[i*old/n.n]
		}
	}
	n.rows += s.Rows
	n.spread.add(s.Relative)
	for i, d := range s.Errors[:s.Parts] {
		if math.IsInf(d, 1) { // it would hide everything
			s.Errors[i] = 0
		}
	}
	fold(n.errors[:n.n], s.Errors[:s.Parts])
}

// of returns the largest difference of a part of a row that is divided into so many. A part that is narrower than those
// here has the difference of the one that it lies in.
func (n *noise) of(part, parts int) float64 {
	from, to := part*n.n/parts, (part+1)*n.n/parts
	return float64(slices.Max(n.errors[from:max(from+1, to)]))
}

// leastUlps is the floor in units in the last place where no difference was seen: an answer in another batch may well
// differ by so much.
const leastUlps = 4

// leastFloor is the floor of an output whose largest magnitude is known, where audits saw no difference. Epsilon is the
// distance from 1 to the next number of the type, smallest its least number above 0.
func leastFloor(d tensor.DType, magnitude float64) float64 {
	var epsilon, smallest float64
	switch d {
	case tensor.Float64:
		epsilon, smallest = 0x1p-52, 0x1p-1074
	case tensor.Float32:
		epsilon, smallest = 0x1p-23, 0x1p-149
	case tensor.Float16:
		epsilon, smallest = 0x1p-10, 0x1p-24
	case tensor.BFloat16:
		epsilon, smallest = 0x1p-7, 0x1p-133
	default:
		return 0.5 // integers are equal or not
	}
	return max(leastUlps*epsilon*magnitude, smallest)
}
