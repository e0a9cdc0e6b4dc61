package host

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/tensor"
)

const (
	// roughly is by how many times its tolerance a value may be off through rounding alone: kernels of another size add in another order.
	roughly = 10
	// recentRows is of how many of the latest rows the usual magnitude is the median.
	recentRows = 15
)

// difference is the worst of an answer, relative to the scale of its elements.
type difference struct {
	far      float64
	text     string // "" if it is tolerated
	rounding bool   // nothing in it is too much for that
}

func (d difference) wrong() bool { return d.text != "" }

// compare compares an answer of the row with what it gives alone. Each element is measured by itself, so that none hides behind a larger one
// beside it: relative to its own magnitude, or that which three in four of its row are above, since what is far below the others may be
// what rounding left of them. A tolerance that the manifest states is relative to what is usual, as it is in the proof, and so is what passes
// for rounding.
func (row *auditRow) compare(a *audit, got, alone []tensor.Tensor) (worst difference) {
	worst.rounding = true
	j := &execution.Job{Wanted: row.wanted}
	for i := range alone {
		o := j.Output(i)
		if a.isRandom(o) || bytes.Equal(got[i].Data, alone[i].Data) && slices.Equal(got[i].Shape, alone[i].Shape) {
			continue
		}
		spec, stated := &row.replica.bare.Outputs[o], row.replica.verdict.tolerance
		own, usual := a.scales(o, alone[i])
		scale, least := own, 0.0
		if stated > 0 {
			scale, least = usual, floor
		}
		tolerated := tolerated(stated, spec.DType)
		far, err := deviation(got[i], alone[i], scale, least)
		text := inWords(spec, far, err, tolerated, fmt.Sprintf("in a batch of %d rows", row.size))
		if text == "" {
			continue
		}
		loosely, _ := deviation(got[i], alone[i], usual, floor)
		worst.rounding = worst.rounding && loosely <= rough(roughly, tolerated)
		if worst.text == "" || far > worst.far {
			worst.far, worst.text = far, text
		}
	}
	return worst
}

// scales returns, by element, what a row gives alone of an output, or the magnitude that three in four of its elements are above where that
// is more; and the same where what is usual of the output is more than either.
func (a *audit) scales(o int, alone tensor.Tensor) (own, usual []float64) {
	if !alone.DType.IsFloat() {
		return nil, nil
	}
	own = scales([]tensor.Tensor{alone})
	low, typical := ranked(own, 4), a.usual(o)
	usual = make([]float64, len(own))
	for e := range own {
		own[e] = max(own[e], low)
		usual[e] = max(own[e], typical)
	}
	return own, usual
}

// ranked returns the value that one part-th of them are not above. Of many it looks at some thousand.
func ranked(values []float64, part int) float64 {
	if len(values) == 0 {
		return 0
	}
	var some []float64
	for i := 0; i < len(values); i += 1 + len(values)/4096 {
		some = append(some, values[i])
	}
	slices.Sort(some)
	return some[(len(some)-1)/part]
}

// learn takes in what a row gives alone.
func (a *audit) learn(row *auditRow, alone []tensor.Tensor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.recent == nil {
		a.recent = map[int][]float64{}
	}
	j := &execution.Job{Wanted: row.wanted}
	for i := range alone {
		if alone[i].DType.IsFloat() {
			o := j.Output(i)
			before := a.recent[o][max(0, len(a.recent[o])-recentRows+1):]
			a.recent[o] = append(before, ranked(scales(alone[i:i+1]), 2))
		}
	}
}

// usual returns the median magnitude of an output in the latest rows: what a small one, such as a single number that is near zero for once,
// does not tell of itself. A few huge rows do not move it.
func (a *audit) usual(o int) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return ranked(a.recent[o], 2)
}

// leaveOut has the outputs of a row that give something else each time they are run alone compared no more, and says so.
func (h *Host) leaveOut(v *version, row *auditRow, again, alone []tensor.Tensor) {
	a := &v.audit
	j := &execution.Job{Wanted: row.wanted}
	for i := range alone {
		o := j.Output(i)
		of := *row
		of.wanted = []int{o}
		if !of.compare(a, again[i:i+1], alone[i:i+1]).wrong() {
			continue
		}
		a.mu.Lock()
		if a.random == nil {
			a.random = map[int]bool{}
		}
		a.random[o] = true
		all := len(a.random) == len(row.replica.bare.Outputs)
		a.mu.Unlock()
		if all {
			h.tellAudit(v, AuditBudget, a.end(h))
		}
		h.remark(v, fmt.Sprintf("output %q is not audited, because it is something else each time a row is run alone", row.replica.bare.Outputs[o].Name))
	}
}

func (a *audit) isRandom(o int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random[o]
}

// leftOut reports whether there is nothing to compare of a row.
func (row *auditRow) leftOut(a *audit) bool {
	for i := range row.outputs {
		if j := (&execution.Job{Wanted: row.wanted}); !a.isRandom(j.Output(i)) {
			return false
		}
	}
	return true
}
