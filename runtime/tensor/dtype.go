// Package tensor defines the values that models exchange: element types, shapes, signatures, and the memory that holds
// a batch.
package tensor

import "fmt"

// DType is the element type of a tensor. The zero value is Invalid.
type DType uint8

// The element types that ONNX Runtime serves.
const (
	Invalid DType = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	String
)

var dtypes = [...]struct {
	name string
	size int
}{
	Invalid: {"invalid", 0}, Bool: {"bool", 1},
	Int8: {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Uint8: {"uint8", 1}, Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
	Float16: {"fp16", 2}, BFloat16: {"bf16", 2}, Float32: {"fp32", 4}, Float64: {"fp64", 8},
	String: {"string", 0},
}

// Size returns the bytes of one element, or 0 for String (whose elements differ in length) and Invalid.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

// String returns the name used in manifests and messages: bool, int8 ... uint64, fp16, bf16, fp32, fp64, string.
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// IsFloat reports whether elements are floating point numbers of any width.
func (d DType) IsFloat() bool { return d >= Float16 && d <= Float64 }

// ParseDType is the inverse of String. It reports false for a name that no element type has.
func ParseDType(name string) (DType, bool) {
	for d, t := range dtypes {
		if t.name == name && DType(d) != Invalid {
			return DType(d), true
		}
	}
	return Invalid, false
}
