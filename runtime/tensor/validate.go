package tensor

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// FieldError says which part of a request a model cannot take.
type FieldError struct {
	Field string // the path of the field, such as inputs["observation"].shape
	Want  string // the expected value
	Got   string // the actual value
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: expected %s, got %s", e.Field, e.Want, e.Got)
}

// Rows checks inputs, given in the signature's order, against the signature and returns how many rows they bring: the
// common size of the batch dimensions, which may be 0, or 1 where no input has one. Data must already agree with each
// tensor's own shape (see Tensor.Check). The error is a *FieldError.
func (s *Signature) Rows(inputs []Tensor) (int, error) { return s.rows(inputs, false) }

// RowsOfSome is Rows where some inputs, which are Invalid, are not there yet.
func (s *Signature) RowsOfSome(inputs []Tensor) (int, error) { return s.rows(inputs, true) }

func (s *Signature) rows(inputs []Tensor, some bool) (int, error) {
	rows := int64(-1)
	from := ""
	for i, in := range inputs {
		spec, optional := s.Takes(i)
		if (optional || some) && in.DType == Invalid {
			continue
		}
		if in.DType != spec.DType {
			return 0, &FieldError{inputField(spec.Name, "dtype"), spec.DType.String(), in.DType.String()}
		}
		if !spec.Shape.Accepts(in.Shape) {
			return 0, &FieldError{inputField(spec.Name, "shape"), spec.Shape.String(), in.Shape.Literal()}
		}
		if optional {
			continue
		}
		if err := s.checkVariable(i, inputs); err != nil {
			return 0, err
		}
		if spec.BatchDim == NoBatch {
			continue
		}
		n := in.Shape[spec.BatchDim]
		switch {
		case rows < 0:
			rows, from = n, spec.Name
		case n != rows:
			return 0, &FieldError{
				inputField(spec.Name, "shape"),
				fmt.Sprintf("%d rows in dimension %d, as input %q brings", rows, spec.BatchDim, from),
				in.Shape.String(),
			}
		}
	}
	switch {
	case rows < 0:
		return 1, nil
	case rows > maxRows:
		return 0, &FieldError{
			inputField(from, "shape"), fmt.Sprintf("at most %d rows", maxRows),
			strconv.FormatInt(rows, 10),
		}
	}
	return int(rows), nil
}

// maxRows keeps a row count within an int32, which the API reports; memory runs out long before.
const maxRows = 1<<31 - 1

func inputField(name, part string) string { return fmt.Sprintf("inputs[%q].%s", name, part) }

// Key appends the values that must be equal for two requests to share an execution: every dimension that the signature
// leaves open, but for the batch dimensions and where there are buckets the bucket instead, and the whole value of each
// unbatched input. Equal keys mean joinable, byte for byte; nothing is hashed. A model whose only open dimension is the
// batch has the empty key.
func (s *Signature) Key(dst []byte, inputs []Tensor) []byte {
	dst = s.ShapeKey(dst, inputs)
	for i, spec := range s.Inputs {
		if spec.BatchDim == NoBatch {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(inputs[i].Size()))
			for run := range inputs[i].Runs() {
				dst = append(dst, run...)
			}
		}
	}
	return dst
}

// ShapeKey appends the part of Key that shapes decide, and with them the cost of an execution.
func (s *Signature) ShapeKey(dst []byte, inputs []Tensor) []byte {
	for i, spec := range s.Inputs {
		for d, size := range spec.Shape {
			if size != Unknown || d == spec.BatchDim {
				continue
			}
			executed := inputs[i].Shape[d]
			if v := spec.Variable; v != nil && v.Dim == d {
				executed = v.Padded(executed)
			}
			dst = binary.LittleEndian.AppendUint64(dst, uint64(executed))
		}
	}
	return dst
}
