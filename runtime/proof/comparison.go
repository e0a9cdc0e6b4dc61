package proof

import (
	"fmt"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// compare is the comparison of the proof. A difference that may be rounding is noted, and left to the caller's
// judgment.
func (t *trial) compare(base *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string) {
	return t.compareUnless(base, rows, outputs, func(d tensor.DType, far float64, wrong string) bool {
		if far > t.rough(d) {
			return false
		}
		t.rounding.note(far, wrong)
		return true
	})
}

// compareRoughly is the comparison of rows that are proven independent already: it finds only differences that rounding
// cannot explain.
func (t *trial) compareRoughly(base *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string) {
	return t.compareUnless(base, rows, outputs,
		func(d tensor.DType, far float64, _ string) bool { return far <= t.rough(d) })
}

// compareStrictly tolerates as much as the setting does, and nothing more.
func (t *trial) compareStrictly(base *baseline, rows []int,
	outputs []tensor.Tensor,
) (difference float64, wrong string) {
	return t.compareUnless(base, rows, outputs, func(tensor.DType, float64, string) bool { return false })
}

// compareUnless compares each row of a batch with its result alone. A difference beyond the tolerance is wrong unless
// it is excused.
func (t *trial) compareUnless(base *baseline, rows []int, outputs []tensor.Tensor,
	excused func(d tensor.DType, far float64, wrong string) bool,
) (difference float64, wrong string) {
	s := t.decision.Signature
	for o := range outputs {
		spec, out := &s.Outputs[o], outputs[o]
		dim := spec.BatchDim
		if !out.Shape.HasRows(dim, len(rows)) {
			return 0, fmt.Sprintf("output %q has the shape %v for %d rows, expected them in dimension %d", spec.Name,
				out.Shape, len(rows), dim)
		}
		for at, row := range rows {
			got := s.Share(t.decision.trims, o, dim, tensor.RowRange{Tensor: out, First: at, Rows: 1}, base.sets[row], nil)
			far, err := compare.Relative(got, base.answer(s, row, o), base.scaleOf(s, row, o), floor)
			if most := t.tolerance(spec.DType); err != nil || far > most {
				if wrong := inWords(spec, far, err, most, base.beside(len(rows))); !excused(spec.DType, far, wrong) {
					return 0, wrong
				}
			}
			difference = max(difference, far)
		}
	}
	return difference, ""
}
