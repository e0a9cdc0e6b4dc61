package proof

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

// value is one that single elements are tried with, as a palette of nothing else.
type value struct {
	palette
	size int // differences are relative to rows with values of the same size
}

func number(v float64) value {
	return value{palette{float: func(*rand.Rand) float64 { return v }}, sizeOf(v)}
}

func integer(v int64) value { return value{palette{least: v, ints: 1}, sizeOf(float64(v))} }

func text(v string) value { return value{palette{text: v}, sizeOf(float64(len(v)))} }

// sizeOf is the power of ten, the same for all that is not above 100.
func sizeOf(v float64) int { return int(math.Ceil(math.Log10(max(math.Abs(v), 100)))) }

// specialNumbers are such as programs give a meaning to: whole ones, which are also flags and codes, halves and tenths,
// marks of missing values, and powers of two. Then come two of each power of ten.
var specialNumbers = func() (all []value) {
	for n := range 101 {
		all = append(all, number(float64(n)))
	}
	for n := 1; n <= 10; n++ {
		all = append(all, number(float64(-n)), number(float64(n)/10), number(float64(n)-0.5))
	}
	for _, v := range []float64{-99, -100, -999, -1000, -9999, 127, 128, 255, 256, 500, 512, 999, 1000, 1024, 9999} {
		all = append(all, number(v))
	}
	for n := -18; n <= 30; n++ {
		v := 1.7 * math.Pow(10, float64(n)/2)
		all = append(all, number(v), number(-v))
	}
	return all
}()

// specialIntegers ascend but for the first, since how much a model does may depend on them: small ones, numbers of
// classes, letters and tokens, and the bounds of smaller types.
var specialIntegers = func() (all []int64) {
	for n := int64(-1); n < 132; n++ {
		all = append(all, n)
	}
	return append(all, 255, 256, 257, 300, 500, 511, 512, 999, 1000, 1001, 1023, 1024, 2000, 4095, 4096, 10_000)
}()

var specialTexts = func() (all []value) {
	for _, s := range []string{
		"", " ", "a b", " lead", "trail ", "two  spaces", "some words of a sentence.", "What is it?", "Stop!", "one, two",
		"a;b:c", "a-b", "a_b", "a/b", `a\b`, "a.b", "it's", `"quoted"`, "(a) [b] {c}", "<b>", "a&b=c", "a+b*c", "50%", "$5",
		"#tag", "a@b.org", "https://example.org/a?b=c", "A", "Word", "WORD", "two Words", "0", "1", "7", "42", "100", "-1",
		"3.14", "1e5", "a1", "2024-02-29", "true", "False", "null", "None", "NaN", "N/A", "unknown", "[UNK]", "[PAD]",
		"[CLS] a [SEP]", "<s>", "</s>", "<unk>", "<|endoftext|>", "the", "a\tb", "a\nb", "\n", "é", "Ünïcode", "日本語", "😀",
	} {
		all = append(all, text(s))
	}
	for long := 2; long <= 1024; long += 1 + long/3 {
		all = append(all, text(strings.Repeat("abcdefghij", long)[:long]), text(strings.Repeat("a bc ", long)[:long]))
	}
	return all
}()

// specialValues returns the values to try in inputs of a type. Integers above most are left out.
func specialValues(d tensor.DType, most int64) (all []value) {
	switch {
	case d == tensor.String:
		return specialTexts
	case d.IsFloat():
		return specialNumbers
	case d == tensor.Bool: // ordinary rows have both
		return nil
	}
	least, greatest := bounds(d)
	list := specialIntegers
	if d.Size() == 1 {
		list = nil
		for v := least; v <= greatest; v++ {
			list = append(list, v)
		}
	}
	for _, v := range append(slices.Clip(list), greatest) {
		if v >= least && v <= min(most, greatest) {
			all = append(all, integer(v))
		}
	}
	return all
}

// bounds returns the least and the greatest integer of a type, as far as an int64 holds them.
func bounds(d tensor.DType) (least, greatest int64) {
	bits := 8 * d.Size()
	if d >= tensor.Uint8 && d <= tensor.Uint64 {
		return 0, int64(min(uint64(1)<<(bits-1)*2-1, math.MaxInt64))
	}
	return -1 << (bits - 1), int64(uint64(1)<<(bits-1) - 1)
}
