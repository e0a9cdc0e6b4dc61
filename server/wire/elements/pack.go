package elements

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
)

var little = binary.LittleEndian

// pack turns a list as it lies in a message into the layout of tensor.Tensor.Data. It is not for strings, nor for those
// lists that have it already. bad is the index of the first element that the type cannot hold, which is value, or -1.
func pack(dtype tensor.DType, e *Elements) (data []byte, bad int, value int64) {
	size := dtype.Size()
	data = make([]byte, e.Count*size)
	// For halves these are all values of two bytes, which the bits never exceed.
	low, high := bounds(dtype)
	from := NewSource(e.Pieces)
	var turn protect.Turn
	for i := range e.Count {
		turn.Step(1) // others get the processor from time to time
		v := element(&from, e.List, dtype)
		// Each type of eight bytes holds all that its list can have.
		if size < 8 && (int64(v) < low || int64(v) > high) {
			return nil, i, int64(v)
		}
		switch to := data[i*size:]; size {
		case 1:
			to[0] = byte(v)
		case 2:
			little.PutUint16(to, uint16(v))
		case 4:
			little.PutUint32(to, uint32(v))
		case 8:
			little.PutUint64(to, v)
		}
	}
	return data, -1, 0
}

// element takes the next element of a list off. It is a number, extended to 64 bits with its sign, or the bits of one.
// Lists of Float come here for the two types of half precision only: the other floats are lent. Each list was counted
// before, so there is an element.
func element(s *Source, l List, dtype tensor.DType) uint64 {
	if l == Float {
		var one Source
		s.Take(4, &one)
		v := math.Float32frombits(little.Uint32(one.Whole()))
		if dtype == tensor.BFloat16 {
			return uint64(tensor.BFloat16Bits(v))
		}
		return uint64(tensor.Float16Bits(v))
	}
	v, _ := s.Varint() // Counted has read it before
	switch {
	case l == Bool: // protobuf takes any number but 0 for true
		return min(v, 1)
	case l == Int32: // a negative one has its sign in all 64 bits; generated code takes the lowest 32
		return uint64(int64(int32(v)))
	case l == Uint32:
		return uint64(uint32(v))
	}
	return v
}

// Packed returns a list of numbers of a decoded message, as it lies in an encoded one, so that there is one way to read
// lists. It encodes a message with that field alone, and takes the tag and the length off. It panics if the numbers
// cannot be encoded, which cannot be. The list must not be empty.
func Packed(m protoreflect.Message, number protowire.Number) []byte {
	field := m.Descriptor().Fields().ByNumber(number)
	only := m.New()
	only.Set(field, m.Get(field))
	data, err := proto.Marshal(only.Interface())
	if err != nil {
		panic(fmt.Sprintf("numbers cannot be encoded: %v", err))
	}
	_, _, tag := protowire.ConsumeTag(data)
	data, _ = protowire.ConsumeBytes(data[tag:])
	return data
}

// packStrings returns texts in the layout of tensor.Tensor.Data: each behind its length in four bytes.
func packStrings(values [][]byte) []byte {
	size := 0
	for _, v := range values {
		size += 4 + len(v)
	}
	data := make([]byte, 0, size)
	for _, v := range values {
		data = tensor.AppendString(data, v)
	}
	return data
}

// bounds returns the least and the largest integer that an element type of less than eight bytes holds.
func bounds(d tensor.DType) (low, high int64) {
	bits := 8 * d.Size()
	if d >= tensor.Int8 && d <= tensor.Int64 {
		return -1 << (bits - 1), 1<<(bits-1) - 1
	}
	return 0, 1<<bits - 1
}
