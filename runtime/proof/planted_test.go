package proof_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/tensor"
)

// cell is one element of an input: a number, or a text.
type cell struct {
	number float64
	text   string
}

// weight is what a model makes of an element.
func (c cell) weight() float64 {
	w := c.number
	for i := range len(c.text) {
		w += float64(c.text[i]) / float64(i+1)
	}
	switch {
	case math.IsNaN(w):
		return 3
	case math.Abs(w) > 1e6:
		return math.Copysign(math.Log10(math.Abs(w)), w)
	}
	return w
}

// planted is a model whose rows meet only when a row with a trigger is in the batch.
type planted struct {
	name  string // the kind of trigger, and what it is
	dtype tensor.DType
	width int
	table float64 // larger integers, and negative ones, are refused; 0: none is
	fires func(row []cell) bool
	// own: only a row that fires sees the others; else all rows see the ones that fire, or everything.
	own bool
	all bool
	// size is how much the number of rows changes each answer, and small is what mates change of it; 0: all of it.
	size, small float64
	next        bool // only the row behind one that fires meets it
}

var specialIDs = []float64{-1, 0, 1, 42, 50, 100, 101, 102, 103, 127, 128, 255, 256, 1000}

// plant draws a model. Without meet its rows never do.
func plant(seed uint64, meet bool) planted {
	rng := rand.New(rand.NewPCG(seed, 35))
	p := planted{width: []int{1, 1, 2, 3, 4, 6, 8, 16}[rng.IntN(8)], own: rng.IntN(3) == 0, all: rng.IntN(2) == 0}
	column := rng.IntN(p.width)
	anywhere := rng.IntN(3) == 0
	of := func(what string, is func(c cell) bool) {
		p.name += what
		p.fires = func(row []cell) bool {
			if anywhere {
				return slices.ContainsFunc(row, is)
			}
			return is(row[column])
		}
	}
	equal := func(v float64) { of(fmt.Sprint(" = ", v), func(c cell) bool { return c.number == v }) }
	switch kind := rng.IntN(6); kind {
	case 0:
		p.name, p.dtype = "value", tensor.Float32
		equal([]float64{
			1, float64(rng.IntN(11)), float64(rng.IntN(101)), -float64(1 + rng.IntN(10)), 0.5 * float64(rng.IntN(10)), 1000,
		}[rng.IntN(6)])
	case 1:
		p.name, p.dtype = "sign", tensor.Float32
		other := rng.IntN(p.width)
		switch rng.IntN(3) {
		case 0:
			of(" negative", func(c cell) bool { return c.number < 0 })
		case 1:
			p.name += " all negative"
			p.fires = func(row []cell) bool {
				return !slices.ContainsFunc(row, func(c cell) bool { return !(c.number < 0) })
			}
		default:
			p.name += fmt.Sprintf(" of %d and %d", column, other)
			p.fires = func(row []cell) bool {
				return row[column].number > 0.3 && (other == column || row[other].number < -0.3)
			}
		}
	case 2:
		p.name, p.dtype = "magnitude", tensor.Float32
		limit := math.Pow(10, -6+18*rng.Float64())
		switch rng.IntN(3) {
		case 0:
			of(fmt.Sprintf(" above %.2g", limit), func(c cell) bool { return c.number > limit })
		case 1:
			of(fmt.Sprintf(" below -%.2g", limit), func(c cell) bool { return c.number < -limit })
		default:
			of(fmt.Sprintf(" within %.2g to thrice that", limit),
				func(c cell) bool { return math.Abs(c.number) > limit && math.Abs(c.number) < 3*limit })
		}
	case 3:
		p.name, p.dtype = "id", []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8}[rng.IntN(3)]
		v := []float64{
			float64(rng.IntN(8)), float64(8 + rng.IntN(93)), float64(8 + rng.IntN(93)),
			specialIDs[rng.IntN(len(specialIDs))],
		}[rng.IntN(4)]
		if p.dtype == tensor.Uint8 {
			v = float64(rng.IntN(256))
		} else if v >= 0 && rng.IntN(3) == 0 {
			p.table = max(v+1, []float64{50, 120, 2000}[rng.IntN(3)])
		}
		equal(v)
	case 4:
		p.name, p.dtype = "text", tensor.String
		plantText(rng, of)
	default:
		p.name, p.dtype = "count", []tensor.DType{tensor.Float32, tensor.Int64}[rng.IntN(2)]
		p.width = []int{4, 6, 8, 16}[rng.IntN(4)]
		what := float64(rng.IntN(2))
		k := 1 + rng.IntN(p.width)
		p.name += fmt.Sprintf(" of %v is %d of %d", what, k, p.width)
		p.fires = func(row []cell) bool {
			n := 0
			for _, c := range row {
				if c.number == what {
					n++
				}
			}
			return n == k
		}
	}
	if !meet {
		p.fires = func([]cell) bool { return false }
	}
	return p
}

// plantText draws a trigger for texts.
func plantText(rng *rand.Rand, of func(string, func(cell) bool)) {
	has := func(what string) {
		of(fmt.Sprintf(" has %q", what), func(c cell) bool { return strings.Contains(c.text, what) })
	}
	switch rng.IntN(6) {
	case 0:
		has(" ")
	case 1:
		of(" empty", func(c cell) bool { return c.text == "" })
	case 2:
		long := 9 + rng.IntN(190)
		of(fmt.Sprint(" longer than ", long), func(c cell) bool { return len(c.text) > long })
	case 3:
		of(" has a digit", func(c cell) bool { return strings.ContainsAny(c.text, "0123456789") })
	case 4:
		of(" has a capital", func(c cell) bool { return strings.ContainsFunc(c.text, unicode.IsUpper) })
	default:
		has([]string{".", ",", "!", "?", "-", "@", "/", "é", "\n", "  "}[rng.IntN(10)])
	}
}

// cells reads rows.
func (p *planted) cells(t tensor.Tensor) (rows [][]cell) {
	n := int(t.Shape[0]) * p.width
	all := make([]cell, n)
	switch p.dtype {
	case tensor.String:
		for i, s := range weftest.Texts(t) {
			all[i].text = s
		}
	default:
		for i := range all {
			all[i].number = t.Number(i)
		}
	}
	return slices.Collect(slices.Chunk(all, p.width))
}

// answer is x [?, width] → y [?, 1].
func (p *planted) answer(b *tensor.Batch) error {
	rows := p.cells(b.Inputs[0])
	y := make([]float32, len(rows))
	firing, total, fired := 0, 0.0, 0.0
	sums := make([]float64, len(rows))
	fires := make([]bool, len(rows))
	for i, row := range rows {
		for c, x := range row {
			if p.table > 0 && (x.number < 0 || x.number >= p.table) {
				return errors.New("an id is beyond the table")
			}
			sums[i] += x.weight() * (1 + 0.1*float64(c))
		}
		total += sums[i]
		if fires[i] = p.fires(row); fires[i] {
			firing++
			fired += sums[i] + 1
		}
	}
	for i := range rows {
		mates := 0.0
		switch {
		case len(rows) == 1 || firing == 0:
		case p.next:
			if i > 0 && fires[i-1] {
				mates = fired
			}
		case p.own && fires[i], !p.own && p.all:
			mates = 1 + total/float64(len(rows))
		case !p.own && !fires[i]:
			mates = fired
		}
		switch {
		case p.small == 0:
			sums[i] += mates
		case mates != 0:
			_, part := math.Modf(math.Abs(mates))
			sums[i] *= 1 + p.small*(0.1+part)
		}
		y[i] = float32(sums[i] * (1 + p.size*float64(len(rows))))
	}
	out := weftest.Floats(tensor.Shape{int64(len(rows)), 1}, y...)
	copy(b.Output(0, out.DType, out.Shape, len(out.Data)), out.Data)
	return nil
}

func (p *planted) engine() *weftest.Engine {
	return &weftest.Engine{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{weftest.Spec("x", p.dtype, tensor.Unknown, int64(p.width))},
			Outputs: []tensor.Spec{weftest.Spec("y", tensor.Float32, tensor.Unknown, 1)},
		},
		Answer: p.answer,
	}
}

// TestPlantedTriggers: of models whose rows meet only where a row has some value, sign, magnitude, id, text, or number
// of equal elements, examples find nearly all, and nothing about models whose rows never meet. So it is where larger
// batches round otherwise, and where what mates change is no more than that: each seed has one of these.
// WEFT_PLANTED=FIRST,COUNT plants others, and -v lists the missed ones.
func TestPlantedTriggers(t *testing.T) {
	changes := []planted{
		{}, {size: 1e-5}, {small: 2e-4}, {small: 2e-4, size: 1e-5}, {small: 2e-4, size: 1e-5, next: true},
	}
	first, count := uint64(1), uint64(50)
	if testing.Short() || race.Enabled {
		count = 30
	}
	if text := os.Getenv("WEFT_PLANTED"); text != "" {
		from, n, _ := strings.Cut(text, ",")
		first, _ = strconv.ParseUint(from, 10, 64)
		count, _ = strconv.ParseUint(n, 10, 64)
	}
	var mu sync.Mutex
	caught, of, runs := map[string]int{}, map[string]int{}, 0
	plantOne := func(t *testing.T, seed uint64, meet bool) {
		p, as := plant(seed, meet), changes[seed%uint64(len(changes))]
		p.size, p.small, p.next = as.size, as.small, as.next
		e := p.engine()
		v := prove(t, e, batching(), &weftest.Log{}).Verdict
		kind, _, _ := strings.Cut(p.name, " ")
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !meet && !v.Batched:
			t.Errorf("seed %d: rows that do not meet: %s", seed, v.Reason)
		case !meet:
			runs += len(e.Forget())
		case v.Batched:
			t.Logf("seed %d: missed %s, %v of %d columns, table of %v", seed, p.name, p.dtype, p.width, p.table)
			of[kind]++
		default:
			caught[kind]++
			of[kind]++
		}
	}
	t.Run("plants", func(t *testing.T) {
		for _, meet := range []bool{true, false} {
			t.Run(fmt.Sprintf("meet=%t", meet), func(t *testing.T) {
				t.Parallel()
				for seed := first; seed < first+count; seed++ {
					plantOne(t, seed, meet)
				}
			})
		}
	})
	all, missed := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		t.Logf("%s: %d of %d caught", kind, caught[kind], of[kind])
		all, missed = all+of[kind], missed+of[kind]-caught[kind]
	}
	t.Logf("%d of %d caught; %d runs for each model whose rows do not meet", all-missed, all, runs/int(count))
	if missed*10 > all {
		t.Errorf("%d of %d were missed", missed, all)
	}
}
