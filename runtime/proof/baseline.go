package proof

import (
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// baseline holds rows and their results alone.
type baseline struct {
	palette palette
	extent  int64 // of open dimensions
	// bucket is the lengths that the sets are padded to, for messages; "" where they are not padded.
	bucket  string
	sets    [][]tensor.Tensor // inputs, one row each
	outputs [][]tensor.Tensor // of as many rows as unit says, which are alike
	unit    int
	// kinds says, by set, what kind of numbers it has; nil: all are of one. Differences are relative to numbers of
	// their kind.
	kinds []int
	scale map[[2]int][]float64 // by output and kind; see scales
	cost  time.Duration        // the least device time of a row
	// mates: the answers are of rows that had others in their batch, and not of rows alone.
	mates bool
	// difference is the largest that rows alone in their bucket had; 0 where they are not padded.
	difference float64
	bytes      int // inputs and outputs of the largest row
	// against is why comparing with this baseline proves nothing; "" when it does.
	against string
	// telling counts the output elements that differ from row to row, silent the others. A batch that answers otherwise
	// than rows alone always shows it; one that does not shows nothing about the silent ones.
	telling, silent int
}

// answer returns output o of a row that ran alone.
func (b *baseline) answer(s *tensor.Signature, row, o int) tensor.Tensor {
	out, dim := b.outputs[row][o], s.Outputs[o].BatchDim
	if dim == tensor.NoBatch || b.unit == 1 || !out.Shape.HasRows(dim, b.unit) {
		return out
	}
	return out.Row(dim, 0) // the others are alike
}

// scaleOf returns the scale of output o of a row: by element, the largest magnitude among the rows of its kind.
func (b *baseline) scaleOf(s *tensor.Signature, row, o int) []float64 {
	key := [2]int{o, b.kind(row)}
	if scale, known := b.scale[key]; known {
		return scale
	}
	var rows []tensor.Tensor
	for k := range b.outputs {
		if b.kind(k) == key[1] {
			rows = append(rows, b.answer(s, k, o))
		}
	}
	if b.scale == nil {
		b.scale = map[[2]int][]float64{}
	}
	b.scale[key] = scales(rows)
	return b.scale[key]
}

func (b *baseline) kind(row int) int {
	if b.kinds == nil {
		return 0
	}
	return b.kinds[row]
}

// betterThan reports whether b can prove more than c.
func (b *baseline) betterThan(c *baseline) bool {
	if (b.against == "") != (c.against == "") {
		return b.against == ""
	}
	return b.telling > c.telling
}

// beside words the batch that a row of the baseline ran in, of so many rows.
func (b *baseline) beside(rows int) string {
	switch {
	case b.mates:
		return fmt.Sprintf("among %d rows, with other ones", rows)
	case b.bucket == "":
		return fmt.Sprintf("among %d rows", rows)
	case rows == b.unit:
		return "padded to " + b.bucket
	}
	return fmt.Sprintf("among %d rows padded to %s", rows, b.bucket)
}
