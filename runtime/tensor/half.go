package tensor

import "math"

// The four conversions between fp32, in which the API carries short floating point numbers as typed lists, and the
// formats themselves. Narrowing rounds to nearest, ties to even; a value that is too large becomes infinity, a NaN
// stays a (quiet) NaN.

const (
	f32Infinity  = 0x7f800000
	f16Infinity  = 0x7c00
	f16QuietNaN  = 0x7e00
	f16Overflow  = 0x477ff000 // fp32 bits of 65520, halfway between the largest fp16 and the next power of two
	f16MinNormal = 0x38800000 // fp32 bits of 2^-14
	f16Rebias    = (127 - 15) << 23
)

// Float16Bits returns the bits of the binary16 nearest to f.
func Float16Bits(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits &^ (1 << 31)
	switch {
	case abs > f32Infinity:
		return sign | f16QuietNaN | uint16(abs>>13)&0x3ff
	case abs >= f16Overflow:
		return sign | f16Infinity
	case abs < f16MinNormal:
		// One unit of a subnormal binary16 is 2^-24, which is also one unit of a binary32 in [0.5, 1): the addition
		// rounds.
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-math.Float32bits(0.5))
	default:
		abs += 0xfff + abs>>13&1
		return sign | uint16((abs-f16Rebias)>>13)
	}
}

// Float16Value returns the value of a binary16, exactly.
func Float16Value(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	magnitude := uint32(h & 0x7fff)
	switch {
	case magnitude < 0x400: // subnormal or zero
		return math.Float32frombits(sign | math.Float32bits(float32(magnitude)*0x1p-24))
	case magnitude >= f16Infinity:
		return math.Float32frombits(sign | f32Infinity | magnitude&0x3ff<<13)
	default:
		return math.Float32frombits(sign | (magnitude<<13 + f16Rebias))
	}
}

// BFloat16Bits returns the bits of the bfloat16 nearest to f.
func BFloat16Bits(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&^(1<<31) > f32Infinity {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// BFloat16Value returns the value of a bfloat16, exactly.
func BFloat16Value(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
