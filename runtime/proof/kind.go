package proof

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// kind is a way to make up rows unlike those of the baseline: models treat some numbers otherwise than others, and the
// influence of rows on each other may show on those only.
type kind struct {
	name string // as in "with <name>"
	// of says which element types it changes; the others are as in the baseline.
	of func(tensor.DType) bool
	// palette has the numbers of its rows. Of a special value there is one row all of it, and some where one element is
	// that, each another.
	palette palette
	special *float64
	// turns: every second special row has the special value with the other sign.
	turns bool
	// live: rows of requests are tried together with such rows, too.
	live bool
}

func isInteger(d tensor.DType) bool {
	return d != tensor.String && !d.IsFloat()
}

func isString(d tensor.DType) bool { return d == tensor.String }

func floats(name string, f func(*rand.Rand) float64) kind {
	return kind{name: name, of: tensor.DType.IsFloat, palette: palette{ints: 1, float: f}}
}

func specialFloat(name string, value float64) kind {
	k := floats(name, (*rand.Rand).NormFloat64)
	k.special = &value
	return k
}

func integers(name string, least, n int64) kind {
	return kind{name: name, of: isInteger, palette: palette{least: least, ints: n}}
}

// beside lets rows of requests be tried together with such rows.
func (k kind) beside() kind {
	k.live = true
	return k
}

// turning makes the special value come in both signs.
func (k kind) turning() kind {
	k.turns = true
	return k
}

// kinds in the order in which they are tried: of integers the small ones first, since how much a model does may depend
// on them.
var kinds = []kind{
	floats("ordinary numbers", (*rand.Rand).NormFloat64).beside(),
	floats("numbers of very different size", wide),
	floats("negative numbers", func(rng *rand.Rand) float64 { return -math.Abs(rng.NormFloat64()) }),
	floats("numbers up to 300", func(rng *rand.Rand) float64 { return 300 * rng.Float64() }),
	floats("numbers of 1e2 to 1e5", func(rng *rand.Rand) float64 { return between(rng, 2, 5) }).beside(),
	floats("numbers of 1e10 to 1e30", func(rng *rand.Rand) float64 { return between(rng, 10, 30) }),
	floats("numbers beyond 1e30", func(rng *rand.Rand) float64 { return between(rng, 30, 37) }),
	floats("tiny numbers", func(rng *rand.Rand) float64 { return between(rng, -30, -4) }),
	floats("zeros", func(*rand.Rand) float64 { return 0 }),
	specialFloat("NaN in a row", math.NaN()).beside(),
	specialFloat("an infinity in a row", math.Inf(1)),
	specialFloat("infinities of both signs", math.Inf(-1)).turning(),
	integers("small integers", 0, 8).beside(),
	integers("zeros", 0, 1),
	integers("ones", 1, 1),
	integers("negative integers", -8, 8).beside(),
	integers("integers above 100", 101, 400).beside(),
	integers("integers above 1000", 1001, 9000),
	integers("integers above 1e6", 1_000_001, 1_000_000),
	{name: "empty strings", of: isString, palette: palette{}},
	kind{name: "words", of: isString, palette: palette{words: true}}.beside(),
}

// between draws a number of either sign whose power of ten is within the bounds.
func between(rng *rand.Rand, least, most float64) float64 {
	x := math.Pow(10, least+(most-least)*rng.Float64())
	if rng.IntN(2) == 0 {
		return -x
	}
	return x
}

// kindRows is how many rows of a kind are tried, and specialRows how many have one element of a special value.
const (
	kindRows    = 2
	specialRows = 8
)

// most is how many rows of the kind are tried at most.
func (k *kind) most() int {
	if k.special != nil {
		return specialRows + 1
	}
	return kindRows
}

// changes reports whether rows of the kind have other values of an input.
func (k *kind) changes(in *tensor.Spec) bool { return in.BatchDim != tensor.NoBatch && k.of(in.DType) }

// changesAny reports whether there are rows of the kind.
func (k *kind) changesAny(s *tensor.Signature) bool {
	for i := range s.Inputs {
		if k.changes(&s.Inputs[i]) {
			return true
		}
	}
	return false
}

// rows makes up rows of the kind, like those of b where it changes nothing; none if it changes nothing at all.
func (k *kind) rows(b *baseline, s *tensor.Signature, rng *rand.Rand) (sets [][]tensor.Tensor) {
	for n := range k.most() {
		set := slices.Clone(b.sets[n%len(b.sets)])
		changed := false
		for i := range set {
			if !k.changes(&s.Inputs[i]) {
				continue
			}
			changed = true
			set[i] = k.palette.tensor(set[i].DType, set[i].Shape, rng)
			if k.special != nil {
				value := *k.special
				if k.turns && n%2 == 1 {
					value = -value
				}
				spoil(&set[i], value, n, rng)
			}
		}
		if !changed {
			return nil
		}
		sets = append(sets, set)
	}
	return sets
}

// spoil puts a value into element n of a tensor of numbers, or near it in proportion where there are many; for n at
// specialRows, into all.
func spoil(t *tensor.Tensor, value float64, n int, rng *rand.Rand) {
	size := t.DType.Size()
	all := len(t.Data) / size
	if all == 0 {
		return
	}
	p := palette{float: func(*rand.Rand) float64 { return value }}
	one := p.tensor(t.DType, tensor.Shape{1}, rng).Data
	if n < specialRows {
		at := n % all
		if all > specialRows {
			at = n * all / specialRows
		}
		copy(t.Data[at*size:], one)
		return
	}
	for at := range all {
		copy(t.Data[at*size:], one)
	}
}
