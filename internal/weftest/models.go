package weftest

import "github.com/weftserve/weft/runtime/tensor"

// PerRow is a model x [?, width] → y [?, width] that applies f to each row.
func PerRow(width int64, f func(row []float32) error) *Engine {
	return OverRows(width, func(all [][]float32) error {
		for _, row := range all {
			if err := f(row); err != nil {
				return err
			}
		}
		return nil
	})
}

// OverRows is a model x [?, width] → y [?, width] that changes all rows of a batch in place.
func OverRows(width int64, f func(rows [][]float32) error) *Engine {
	return &Engine{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{Spec("x", tensor.Float32, tensor.Unknown, width)},
			Outputs: []tensor.Spec{Spec("y", tensor.Float32, tensor.Unknown, width)},
		},
		Answer: func(b *tensor.Batch) error { return answerRows(b, int(width), f) },
	}
}

// answerRows runs f on the rows of the first input, and gives them back as the first output.
func answerRows(b *tensor.Batch, width int, f func(rows [][]float32) error) error {
	x := Values(b.Inputs[0])
	rows := make([][]float32, b.Inputs[0].Shape[0])
	for i := range rows {
		rows[i] = x[i*width:][:width]
	}
	if err := f(rows); err != nil {
		return err
	}
	y := Floats(b.Inputs[0].Shape, x...)
	// Output returns the memory that the answer belongs into.
	copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
	return nil
}

// Double is the simplest row: every value twice.
func Double(row []float32) error {
	for i := range row {
		row[i] *= 2
	}
	return nil
}
