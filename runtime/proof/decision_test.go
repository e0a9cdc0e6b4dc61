package proof

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// declared is a tensor of the given dimensions: a number, or a name whose size is open ("?" for none).
func declared(name string, dims ...any) tensor.Spec {
	s := tensor.Spec{Name: name, DType: tensor.Float32, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch}
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			s.Shape, s.DimNames = append(s.Shape, int64(d)), append(s.DimNames, "")
		case string:
			if d == "?" {
				d = ""
			}
			s.Shape, s.DimNames = append(s.Shape, tensor.Unknown), append(s.DimNames, d)
		}
	}
	return s
}

func TestDecide(t *testing.T) {
	const none = tensor.NoBatch
	auto := modelrepo.Defaults().Batching
	with := func(change func(*modelrepo.Batching)) modelrepo.Batching {
		b := auto
		change(&b)
		return b
	}
	for _, test := range []struct {
		name     string
		inputs   []tensor.Spec
		outputs  []tensor.Spec
		manifest modelrepo.Batching
		want     []int // batch dimensions of inputs and outputs
		certain  bool
		against  bool
	}{
		{
			"first dimensions without names",
			[]tensor.Spec{declared("a", "?", 3), declared("b", "?", "?")},
			[]tensor.Spec{declared("y", "?")},
			auto,
			[]int{0, 0, 0},
			false, false,
		},
		{
			"one input",
			[]tensor.Spec{declared("a", "?", 3)},
			[]tensor.Spec{declared("y", "?")},
			auto,
			[]int{0, 0},
			true,
			false,
		},
		{
			"the name is followed to other places",
			[]tensor.Spec{declared("ids", "batch", "seq"), declared("past", 2, "batch", 4, "past", 8)},
			[]tensor.Spec{declared("logits", "batch", "seq", 100), declared("present", 2, "batch", 4, "total", 8)},
			auto,
			[]int{0, 1, 0, 1},
			true, false,
		},
		{
			"another name in front",
			[]tensor.Spec{declared("a", "batch", 3), declared("b", "other", 3)},
			[]tensor.Spec{declared("y", "third", 3)},
			auto,
			[]int{0, 0, 0},
			false, false,
		},
		{
			"time in front, the last step",
			[]tensor.Spec{declared("x", "seq_len", "robots", 4)},
			[]tensor.Spec{declared("y", "robots", 8)},
			auto,
			[]int{1, 0},
			true, false,
		},
		{
			"time in front, all steps, and a state",
			[]tensor.Spec{declared("x", "time", "batch_size", 4), declared("h", 1, "batch_size", 8)},
			[]tensor.Spec{declared("y", "time", "batch_size", 8), declared("h'", 1, "batch_size", 8)},
			auto,
			[]int{1, 1, 1, 1},
			true, false,
		},
		{
			"the second name is one of a picture",
			[]tensor.Spec{declared("x", "images", "height", "width", 3)},
			[]tensor.Spec{declared("y", "images", "height", "width", 1)},
			auto,
			[]int{0, 0},
			true, false,
		},
		{
			"scalars and fixed inputs have no rows",
			[]tensor.Spec{declared("a", "batch", 3), declared("rate"), declared("table", 5, 3)},
			[]tensor.Spec{declared("y", "batch"), declared("n")},
			auto,
			[]int{0, none, none, 0, none},
			true, false,
		},
		{
			"a state beside an observation",
			[]tensor.Spec{declared("a", "?", 3), declared("state", 2, "?", 128)},
			[]tensor.Spec{declared("y", "?")},
			auto,
			[]int{0, 1, 0},
			false, false,
		},
		{
			"a state is not guessed where nothing checks the guess",
			[]tensor.Spec{declared("a", "?", 3), declared("state", 2, "?", 128)},
			[]tensor.Spec{declared("y", "?")},
			with(func(b *modelrepo.Batching) { b.Mode = modelrepo.BatchOn }),
			[]int{0, none, 0},
			true, false,
		},
		{
			"one sequence at a time",
			[]tensor.Spec{declared("ids", 1, "seq")},
			[]tensor.Spec{declared("y", 1, "seq", 8)},
			auto,
			[]int{none, none},
			false, true,
		},
		{
			"a fixed batch",
			[]tensor.Spec{declared("a", 4, 3)},
			[]tensor.Spec{declared("y", 4)},
			auto,
			[]int{none, none},
			false, true,
		},
		{
			"the manifest's word",
			[]tensor.Spec{declared("a", "?", 3), declared("b", 7, "?"), declared("c", "?")},
			[]tensor.Spec{declared("y", "?", "?")},
			with(func(b *modelrepo.Batching) {
				b.BatchDim.Inputs, b.BatchDim.Outputs, b.Unbatched = map[string]int{"b": 1}, map[string]int{"y": 1},
					[]string{"c"}
			}),
			[]int{0, 1, none, 1},
			false, false,
		},
		{
			"all unbatched",
			[]tensor.Spec{declared("a", "?", 3)},
			[]tensor.Spec{declared("y", "?")},
			with(func(b *modelrepo.Batching) { b.Unbatched = []string{"a"} }),
			[]int{none, none},
			false, true,
		},
		{
			"off",
			[]tensor.Spec{declared("a", "?", 3)},
			[]tensor.Spec{declared("y", "?")},
			with(func(b *modelrepo.Batching) { b.Mode = modelrepo.BatchOff }),
			[]int{0, 0},
			true, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			signature := &tensor.Signature{Inputs: test.inputs, Outputs: test.outputs}
			d, err := decide(signature, &test.manifest)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, s := range append(d.Signature.Inputs, d.Signature.Outputs...) {
				got = append(got, s.BatchDim)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("batch dimensions (-want +got):\n%s", diff)
			}
			if d.certain() != test.certain || (d.Against != "") != test.against {
				t.Errorf("certain %v, against %q; want %v, %v", d.certain(), d.Against, test.certain, test.against)
			}
			for _, s := range append(test.inputs, test.outputs...) {
				if s.BatchDim != none {
					t.Fatalf("the engine's own signature was changed: %+v", s)
				}
			}
		})
	}
}
