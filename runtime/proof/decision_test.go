package proof

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// declared reads tensors, as "a[?,3] h[1,batch,8]": names, with sizes, or names of open dimensions, "?" for none.
func declared(text string) (all []tensor.Spec) {
	for word := range strings.FieldsSeq(text) {
		name, dims, _ := strings.Cut(strings.TrimSuffix(word, "]"), "[")
		s := tensor.Spec{Name: name, DType: tensor.Float32, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch}
		for _, d := range strings.FieldsFunc(dims, func(r rune) bool { return r == ',' }) {
			size, err := strconv.ParseInt(d, 10, 64)
			if err == nil {
				d = ""
			} else {
				size, d = tensor.Unknown, strings.TrimPrefix(d, "?")
			}
			s.Shape, s.DimNames = append(s.Shape, size), append(s.DimNames, d)
		}
		all = append(all, s)
	}
	return all
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name, signature string
		want            string // batch dimensions of inputs and outputs; "certain"; "against" batching
		change          func(*modelrepo.Batching)
	}{
		{"first dimensions without names", "a[?,3] b[?,?] → y[?]", "0 0 0", nil},
		{"one input", "a[?,3] → y[?]", "0 0 certain", nil},
		{
			"the name is followed to other places", "ids[batch,seq] past[2,batch,4,past,8] → logits[batch,seq,100] present[2,batch,4,total,8]",
			"0 1 0 1 certain", nil,
		},
		{"another name in front", "a[batch,3] b[other,3] → y[third,3]", "0 0 0", nil},
		{"time in front, the last step", "x[seq_len,robots,4] → y[robots,8]", "1 0 certain", nil},
		{
			"time in front, all steps, and a state", "x[time,batch_size,4] h[1,batch_size,8] → y[time,batch_size,8] h'[1,batch_size,8]",
			"1 1 1 1 certain", nil,
		},
		{
			"the second name is one of a picture", "x[images,height,width,3] → y[images,height,width,1]",
			"0 0 certain", nil,
		},
		{
			"scalars and fixed inputs have no rows", "a[batch,3] rate[] table[5,3] → y[batch] n[]",
			"0 - - 0 - certain", nil,
		},
		{"a state beside an observation", "a[?,3] state[2,?,128] → y[?]", "0 1 0", nil},
		{
			"a state is not guessed where nothing checks the guess", "a[?,3] state[2,?,128] → y[?]",
			"0 - 0 certain", func(b *modelrepo.Batching) { b.Mode = modelrepo.BatchOn },
		},
		{"one sequence at a time", "ids[1,seq] → y[1,seq,8]", "- - against", nil},
		{"a fixed batch", "a[4,3] → y[4]", "- - against", nil},
		{"the manifest's word", "a[?,3] b[7,?] c[?] → y[?,?]", "0 1 - 1", func(b *modelrepo.Batching) {
			b.BatchDim.Inputs, b.BatchDim.Outputs, b.Unbatched = map[string]int{"b": 1}, map[string]int{"y": 1},
				[]string{"c"}
		}},
		{
			"all unbatched", "a[?,3] → y[?]",
			"- - against", func(b *modelrepo.Batching) { b.Unbatched = []string{"a"} },
		},
		{"off", "a[?,3] → y[?]", "0 0 certain against", func(b *modelrepo.Batching) { b.Mode = modelrepo.BatchOff }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inputs, outputs, _ := strings.Cut(test.signature, "→")
			signature := &tensor.Signature{Inputs: declared(inputs), Outputs: declared(outputs)}
			engines := signature.Clone()
			manifest := modelrepo.Defaults().Batching
			if test.change != nil {
				test.change(&manifest)
			}
			d, err := decide(signature, &manifest)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range append(d.Signature.Inputs, d.Signature.Outputs...) {
				got = append(got, strings.ReplaceAll(strconv.Itoa(s.BatchDim), strconv.Itoa(tensor.NoBatch), "-"))
			}
			if d.certain() {
				got = append(got, "certain")
			}
			if d.Against != "" {
				got = append(got, "against")
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q: %s", got, test.want, d.Against)
			}
			if diff := cmp.Diff(engines, signature); diff != "" {
				t.Errorf("the engine's own signature was changed (-before +now):\n%s", diff)
			}
		})
	}
}
