package proof

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

// palette is a way to make up input values. Random data may lie outside the range that a model can take at all, such as
// an index beyond a table, so there are several, from the most telling to the tamest.
type palette struct {
	least, ints int64 // integers are drawn from [least, least+ints)
	words       bool  // strings are words; else text
	text        string
	float       func(*rand.Rand) float64
}

var palettes = []palette{
	{ints: 8, words: true, float: (*rand.Rand).NormFloat64},
	{ints: 8, words: true, float: wide},
	{ints: 2, words: true, float: (*rand.Rand).Float64},
	{ints: 1, float: func(*rand.Rand) float64 { return 0 }},
}

// wide draws numbers of very different magnitude, about one in forty beyond a thousand: an effect that a threshold
// hides from ordinary numbers shows on these.
func wide(rng *rand.Rand) float64 { return rng.NormFloat64() * math.Exp(3.5*rng.NormFloat64()) }

// extents are the sizes tried for open dimensions other than the batch: some models want a minimum, some a power of
// two.
var extents = []int64{4, 1, 16, 64, 256, 512}

// samples makes up n sets of inputs of one row each. Inputs without rows are the same in all of them. Open dimensions
// of the same name have the same size: extent, or the size that their name makes of it.
func samples(s *tensor.Signature, n int, extent int64, p palette, rng *rand.Rand) [][]tensor.Tensor {
	sets := make([][]tensor.Tensor, n)
	for k := range sets {
		sets[k] = make([]tensor.Tensor, len(s.Inputs))
		for i := range s.Inputs {
			if k > 0 && s.Inputs[i].BatchDim == tensor.NoBatch {
				sets[k][i] = sets[0][i]
				continue
			}
			sets[k][i] = p.tensor(s.Inputs[i].DType, sampleShape(&s.Inputs[i], extent), rng)
		}
	}
	return sets
}

// sampleShape returns the shape of one row.
func sampleShape(s *tensor.Spec, extent int64) tensor.Shape {
	shape := make(tensor.Shape, len(s.Shape))
	for d, size := range s.Shape {
		switch {
		case d == s.BatchDim:
			shape[d] = 1
		case size != tensor.Unknown:
			shape[d] = size
		case s.DimNames != nil && strings.Contains(s.DimNames[d], "total"):
			// By convention of exported language models the total is that of the cached and the new tokens.
			shape[d] = 2 * extent
		default:
			shape[d] = extent
		}
	}
	return shape
}

// sampleBytes returns the size of one set of inputs, or the largest number for one beyond all bounds. Strings are
// counted as if they were short.
func sampleBytes(s *tensor.Signature, extent int64) int64 {
	total := int64(0)
	for i := range s.Inputs {
		n, ok := sampleShape(&s.Inputs[i], extent).Elements()
		if !ok || n > math.MaxInt32 {
			return math.MaxInt64
		}
		total += n * int64(max(s.Inputs[i].DType.Size(), 1))
	}
	return total
}

// hasExtent reports whether the signature leaves a size open besides the batch.
func hasExtent(s *tensor.Signature) bool {
	for _, in := range s.Inputs {
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim {
				return true
			}
		}
	}
	return false
}

// tensor makes up one value.
func (p palette) tensor(dtype tensor.DType, shape tensor.Shape, rng *rand.Rand) tensor.Tensor {
	n, _ := shape.Elements()
	data := make([]byte, 0, int(n)*dtype.Size())
	for range n {
		switch dtype {
		case tensor.String:
			data = tensor.AppendString(data, p.word(rng))
		case tensor.Bool:
			data = append(data, byte((p.least+rng.Int64N(min(p.ints, 2)))&1))
		case tensor.Float16:
			data = binary.LittleEndian.AppendUint16(data, tensor.Float16Bits(float32(p.float(rng))))
		case tensor.BFloat16:
			data = binary.LittleEndian.AppendUint16(data, tensor.BFloat16Bits(float32(p.float(rng))))
		case tensor.Float32:
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(p.float(rng))))
		case tensor.Float64:
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(p.float(rng)))
		default:
			// Little-endian, so that the first bytes of a small number are the number in any width.
			var wide [8]byte
			binary.LittleEndian.PutUint64(wide[:], uint64(p.least+rng.Int64N(p.ints)))
			data = append(data, wide[:dtype.Size()]...)
		}
	}
	return tensor.Tensor{DType: dtype, Shape: shape, Data: data}
}

// MadeUp makes up a value of zeros, and of empty texts, or of small numbers and words.
func MadeUp(dtype tensor.DType, shape tensor.Shape, zero bool, rng *rand.Rand) tensor.Tensor {
	if zero {
		return palettes[len(palettes)-1].tensor(dtype, shape, rng)
	}
	return palettes[0].tensor(dtype, shape, rng)
}

func (p palette) word(rng *rand.Rand) []byte {
	if !p.words {
		return []byte(p.text)
	}
	word := make([]byte, 1+rng.IntN(8))
	for i := range word {
		word[i] = byte('a' + rng.IntN(26))
	}
	return word
}

// differ reports whether the sets are not all alike. Rows that are, or that the model answers alike, cannot show the
// influence of their mates on them.
func differ(sets [][]tensor.Tensor) bool {
	for _, set := range sets[1:] {
		for i := range set {
			if !bytes.Equal(set[i].Data, sets[0][i].Data) {
				return true
			}
		}
	}
	return false
}
