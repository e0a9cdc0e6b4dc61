package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Tensor is one dense value.
//
// Data holds the elements row-major and little-endian, DType.Size bytes each. The elements of a String tensor stand one
// after the other, each as its length in bytes (uint32, little-endian) followed by its bytes; this is the BYTES layout
// of the Open Inference Protocol, and it keeps Data one flat range of memory that another process could map.
//
// A Tensor does not own its data: the function that hands a Tensor over says how long it stays valid.
type Tensor struct {
	DType DType
	Shape Shape
	Data  []byte
	// Pieces are the data, one after the other, of a tensor that does not lie in one range of memory; Data is nil then.
	// Only the inputs of requests, as they came, may be so, of elements of one size: a copy, in a batch or by Clone or
	// Row, lies in one range again.
	Pieces [][]byte
}

// Check reports whether the data have exactly the bytes that DType and Shape ask for.
func (t Tensor) Check() error {
	n, ok := t.Shape.Elements()
	if !ok {
		return fmt.Errorf("shape %v: dimensions must not be negative and their product must fit in 63 bits", t.Shape)
	}
	if t.DType == String {
		if len(t.Pieces) > 0 {
			return fmt.Errorf("strings lie in one piece, got %d", len(t.Pieces))
		}
		have, err := countStrings(t.Data)
		if err != nil {
			return err
		}
		if have != n {
			return fmt.Errorf("shape %v asks for %d strings, got %d", t.Shape, n, have)
		}
		return nil
	}
	size := int64(t.DType.Size())
	if size == 0 {
		return fmt.Errorf("element type %v holds no data", t.DType)
	}
	if have := t.Size(); n > math.MaxInt64/size || int64(have) != n*size {
		return fmt.Errorf("shape %v of %v asks for %d elements of %d bytes, got %d bytes", t.Shape, t.DType, n, size, have)
	}
	return nil
}

// AppendString appends one element of a String tensor to data.
func AppendString(data, element []byte) []byte {
	data = binary.LittleEndian.AppendUint32(data, uint32(len(element)))
	return append(data, element...)
}

// NextString splits the first element off the data of a String tensor. The element aliases data.
// It reports false when data does not begin with a whole element.
func NextString(data []byte) (element, rest []byte, ok bool) {
	if len(data) < 4 {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(data)
	if uint64(n) > uint64(len(data)-4) {
		return nil, nil, false
	}
	end := 4 + int(n)
	return data[4:end:end], data[end:], true
}

func countStrings(data []byte) (int64, error) {
	n := int64(0)
	for len(data) > 0 {
		_, rest, ok := NextString(data)
		if !ok {
			return 0, fmt.Errorf("string element %d is cut short", n)
		}
		data = rest
		n++
	}
	return n, nil
}
