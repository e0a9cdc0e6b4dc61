package proof

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/tensor"
)

// single is an answer of one output of fp32.
func single(values ...float32) []tensor.Tensor {
	return []tensor.Tensor{weftest.Floats(tensor.Shape{int64(len(values))}, values...)}
}

// TestAudited: how the answer of a row of a live batch is compared with its result alone.
func TestAudited(t *testing.T) {
	floats := tensor.Spec{Name: "y", DType: tensor.Float32}
	both := []tensor.Spec{floats, {Name: "z", DType: tensor.Float32}}
	shaped := single(1, 2)
	shaped[0].Shape = tensor.Shape{1, 2}
	usual := Seen{}
	for _, v := range []float32{1e20, 1, 1, 1, 1e20} { // a few huge rows do not move what is usual
		usual = usual.Learn(&Audited{Outputs: both}, single(v))
	}
	for n := range 100 { // only the latest of them count
		usual = usual.Learn(&Audited{Outputs: both, Wanted: []int{1}}, single(float32(100-n)))
	}
	for _, c := range []struct {
		name         string
		seen         Seen
		row          Audited
		got, alone   []tensor.Tensor
		wrong, round bool
		text         string
	}{
		{"equal", Seen{}, Audited{}, single(1, 2), single(1, 2), false, true, ""},
		{"another shape", Seen{}, Audited{}, shaped, single(1, 2), true, false, `output "y" of a row in a batch of 4 rows has type`},
		{"tolerated", Seen{}, Audited{}, single(1 + 5e-6), single(1), false, true, ""},
		{"ten times that", Seen{}, Audited{}, single(1 + 5e-5), single(1), true, true, `output "y" of a row differs by`},
		{"a hundred times", Seen{}, Audited{}, single(1 + 5e-4), single(1), true, false, ""},
		{"where the proof saw as much", Seen{}, Audited{Rounds: true}, single(1 + 5e-4), single(1), true, true, ""},
		{"more than it looks for", Seen{}, Audited{Rounds: true}, single(1 + 2e-3), single(1), true, false, ""},
		{"beside a huge one", Seen{}, Audited{}, single(1.01, 1e9), single(1, 1e9), true, true, ""},
		{"a remainder", Seen{}, Audited{}, single(1e-6, 1, 2, 3, 4), single(2e-6, 1, 2, 3, 4), false, true, ""},
		{"half are remainders", Seen{}, Audited{}, single(1e-6, 1e-6, 2, 3), single(2e-6, 1e-6, 2, 3), true, true, ""},
		{"near zero for once", Seen{}, Audited{Tolerance: 1e-3}, single(1e-3), single(2e-3), true, false, ""},
		{"near zero where 1 is usual", usual, Audited{Tolerance: 1e-3}, single(1e-3), single(1.9e-3), false, true, ""},
		{
			"far where 8 are usual", usual,
			Audited{Tolerance: 1e-3, Wanted: []int{1}},
			single(1e-3), single(0.01), true, true,
			`output "z" of a row differs by 0.0011 `,
		},
		{"random", Seen{}.Without([]int{0}), Audited{}, single(1), single(2), false, true, ""},
		{"random elsewhere", Seen{}.Without([]int{0}), Audited{Wanted: []int{1}}, single(1), single(2), true, false, `"z"`},
		{
			"the worst of two",
			Seen{},
			Audited{},
			append(single(1.001), single(2)...), append(single(1), single(1)...), true, false,
			`output "z" of a row differs by 1 `,
		},
		{
			"the worst of two, the other way",
			Seen{},
			Audited{},
			append(single(2), single(1+5e-5)...),
			append(single(1), single(1)...), true, false, `output "y" of a row differs by 1 `,
		},
	} {
		c.row.Outputs, c.row.Size = both, 4
		if d := c.seen.Compare(&c.row, c.got, c.alone); d.Wrong() != c.wrong || d.Rounding != c.round ||
			!strings.Contains(d.Text, c.text) {
			t.Errorf("%s: wrong %v, rounding %v: %s", c.name, d.Wrong(), d.Rounding, d.Text)
		}
	}
}

// TestRandomOutputs are left out, each by itself.
func TestRandomOutputs(t *testing.T) {
	row := &Audited{Outputs: []tensor.Spec{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Wanted: []int{2, 0}}
	two := func(a, b float32) []tensor.Tensor { return append(single(a), single(b)...) }
	s := Seen{}
	if random := s.Random(row, two(1, 2), two(3, 2)); !slices.Equal(random, []int{2}) {
		t.Errorf("outputs %v are random, want 2", random)
	}
	for _, c := range []struct {
		left     int
		row, all bool
	}{{2, false, false}, {0, true, false}, {1, true, true}} {
		if s = s.Without([]int{c.left}); s.LeftOut(row, 2) != c.row || s.AllLeftOut(3) != c.all {
			t.Errorf("without %d: nothing to compare of the row: %v, of any: %v", c.left, s.LeftOut(row, 2), s.AllLeftOut(3))
		}
	}
}

// TestRanksOfMany: of many values some are looked at, in no order.
func TestRanksOfMany(t *testing.T) {
	many := slices.Repeat([]float64{0, 1}, 1<<15)
	if ranked(nil, 2) != 0 || ranked([]float64{3, 1, 2}, 2) != 2 || ranked([]float64{4, 3, 2, 1}, 4) != 1 ||
		ranked(many, 4) != 0 || ranked(append(many, 1, 1, 1), 1) != 1 {
		t.Error("ranks are wrong")
	}
}
