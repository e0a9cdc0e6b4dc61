package tensor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Variable describes a dimension of an input whose size differs from request to request, and the few sizes that
// executions have.
type Variable struct {
	// Dim is the dimension. It is open in the signature and not that of the batch.
	Dim int
	// Most is the largest size that a request may have, at least 1.
	Most int64
	// Buckets are the sizes that are executed, ascending and ending in Most: a request is padded to the next. Empty:
	// requests are executed in the size that they have.
	Buckets []int64
	// Pad is the element to pad with, as Tensor.Data holds it.
	Pad []byte
	// Like is the place of the first input that must have the same size as this one; its own place where this is the
	// first.
	Like int
}

// Padded returns the size in which n elements, at most Most, are executed.
func (v *Variable) Padded(n int64) int64 {
	if i, _ := slices.BinarySearch(v.Buckets, n); i < len(v.Buckets) {
		return v.Buckets[i]
	}
	return n
}

// checkVariable checks the size of input i where it is variable; the shapes of all inputs up to i fit the signature.
func (s *Signature) checkVariable(i int, inputs []Tensor) error {
	v := s.Inputs[i].Variable
	if v == nil {
		return nil
	}
	field := inputField(s.Inputs[i].Name, "shape")
	n := inputs[i].Shape[v.Dim]
	if n < 1 || n > v.Most {
		return &FieldError{
			field, fmt.Sprintf("1 to %d elements in dimension %d (%d is the largest bucket)", v.Most, v.Dim, v.Most),
			fmt.Sprintf("%d in %v", n, inputs[i].Shape),
		}
	}
	if like := s.Inputs[v.Like]; inputs[v.Like].DType != Invalid && inputs[v.Like].Shape[like.Variable.Dim] != n {
		return &FieldError{
			field, fmt.Sprintf("%d elements in dimension %d, as input %q brings",
				inputs[v.Like].Shape[like.Variable.Dim], v.Dim, like.Name),
			fmt.Sprintf("%d in %v", n, inputs[i].Shape),
		}
	}
	return nil
}

// String lists the lengths that are executed, such as "32, 64, 128".
func (v *Variable) String() string {
	sizes := make([]string, len(v.Buckets))
	for i, b := range v.Buckets {
		sizes[i] = strconv.FormatInt(b, 10)
	}
	return strings.Join(sizes, ", ")
}
