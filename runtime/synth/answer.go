package synth

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// Answer returns the outputs that Run gives for inputs, without a device and without failing runs. Rows do not depend
// on each other: the answer to several is the answers to each, joined along the open dimension. An output without an
// open dimension depends on the inputs without one only. The error is about inputs that do not fit the signature.
func (s *Session) Answer(inputs ...tensor.Tensor) ([]tensor.Tensor, error) {
	rows, err := s.rows(inputs)
	if err != nil {
		return nil, err
	}
	outputs := make([]tensor.Tensor, len(s.signature.Outputs))
	s.answer(inputs, rows, func(i int, dtype tensor.DType, shape tensor.Shape, size int) []byte {
		outputs[i] = tensor.Tensor{DType: dtype, Shape: shape, Data: make([]byte, size)}
		return outputs[i].Data
	})
	return outputs, nil
}

// answer fills each output in the memory that declare returns for it. Element k of a row's share of output i is made of
// hash(seed, inputs without rows, the row's share of the other inputs), i and k.
func (s *Session) answer(inputs []tensor.Tensor, rows int64,
	declare func(int, tensor.DType, tensor.Shape, int) []byte,
) {
	common := []uint64{mix(s.o.Seed)}
	for i, spec := range s.signature.Inputs {
		if rowDim(spec.Shape) < 0 {
			hashRows(common, inputs[i], -1)
		}
	}
	own := make([]uint64, rows)
	for r := range own {
		own[r] = common[0]
	}
	for i, spec := range s.signature.Inputs {
		if d := rowDim(spec.Shape); d >= 0 {
			hashRows(own, inputs[i], d)
		}
	}
	for i, spec := range s.signature.Outputs {
		d, shape, hashes := rowDim(spec.Shape), spec.Shape, common
		if d >= 0 {
			shape, hashes = shape.With(d, rows), own
		}
		n, _ := shape.Elements() // the specification was checked by Open
		size := spec.DType.Size()
		if spec.DType == tensor.String {
			size = 4 + stringLength
		}
		data := declare(i, spec.DType, shape, int(n)*size)[:0]
		for e := range n {
			row, k := place(shape, d, e)
			data = appendElement(data, spec.DType, mix(hashes[row]^mix(uint64(i)<<32^uint64(k))))
		}
	}
}

// rowDim returns the dimension that counts rows, or -1.
func rowDim(shape tensor.Shape) int {
	for i, size := range shape {
		if size == tensor.Unknown {
			return i
		}
	}
	return -1
}

// place returns the row that element e belongs to, where dimension d counts rows, and its position among the row's
// elements.
func place(shape tensor.Shape, d int, e int64) (row, k int64) {
	if d < 0 {
		return 0, e
	}
	inner, _ := shape[d+1:].Elements()
	chunk := e / inner // the elements that stand together in a row
	return chunk % shape[d], chunk/shape[d]*inner + e%inner
}

// hashRows mixes each row's elements into its hash, where dimension d counts rows; or, where d is -1, all into the
// first.
func hashRows(hashes []uint64, t tensor.Tensor, d int) {
	if d < 0 {
		hashes[0] = hash(hashes[0], t.Data)
		return
	}
	inner, _ := t.Shape[d+1:].Elements() // stand together in a row
	rest := t.Data
	for chunk := uint64(0); len(rest) > 0; chunk++ {
		size := int(inner) * t.DType.Size()
		if t.DType == tensor.String {
			size = stringsSize(rest, inner)
		}
		row := chunk % uint64(len(hashes))
		hashes[row] = hash(hashes[row], rest[:size])
		rest = rest[size:]
	}
}

// stringsSize is the size of the first n strings.
func stringsSize(data []byte, n int64) int {
	rest := data
	for range n {
		_, rest, _ = tensor.NextString(rest) // whole: Tensor.Check said so
	}
	return len(data) - len(rest)
}

func hash(h uint64, data []byte) uint64 {
	h = mix(h ^ uint64(len(data)))
	for len(data) >= 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(data))
		data = data[8:]
	}
	for _, b := range data {
		h = mix(h ^ uint64(b))
	}
	return h
}

// mix spreads every bit of h over all of them.
func mix(h uint64) uint64 {
	high, low := bits.Mul64(h^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return high ^ low
}

const stringLength = 16

// appendElement makes an element of h: for floats ±[1, 2), which every width holds exactly; any number for integers.
func appendElement(data []byte, d tensor.DType, h uint64) []byte {
	switch d {
	case tensor.Bool:
		return append(data, byte(h&1))
	case tensor.Float16:
		return binary.LittleEndian.AppendUint16(data, uint16(h)&0x83ff|0x3c00)
	case tensor.BFloat16:
		return binary.LittleEndian.AppendUint16(data, uint16(h)&0x807f|0x3f80)
	case tensor.Float32:
		return binary.LittleEndian.AppendUint32(data, uint32(h)&0x807fffff|0x3f800000)
	case tensor.Float64:
		return binary.LittleEndian.AppendUint64(data, h&0x800fffffffffffff|0x3ff0000000000000)
	case tensor.String:
		return tensor.AppendString(data, fmt.Appendf(nil, "%016x", h))
	default: // an integer
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], h)
		return append(data, element[:d.Size()]...)
	}
}

// findNaN returns the position of the first element that is not a number, or -1.
func findNaN(t tensor.Tensor) int {
	if !t.DType.IsFloat() {
		return -1
	}
	numbers := make([]float64, len(t.Data)/t.DType.Size())
	tensor.Numbers(numbers, t.DType, t.Data, 0)
	return slices.IndexFunc(numbers, math.IsNaN)
}
