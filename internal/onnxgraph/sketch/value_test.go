package sketch

import (
	"math"
	"reflect"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
)

func TestParseValues(t *testing.T) {
	got, err := ParseValues(`x=f<2,2>[1,-inf] n=i64(-9223372036854775808) e=u8<0,3> s=string<3>["a","b c"] l=i32[7]`)
	if err != nil {
		t.Fatal(err)
	}
	minusInf := float32(math.Inf(-1))
	want := map[string]Value{
		"x": {DType: onnxgraph.Float, Shape: []int64{2, 2}, Raw: onnxgraph.FloatBytes([]float32{1, minusInf, 1, minusInf})},
		"n": {DType: onnxgraph.Int64, Shape: []int64{}, Raw: []byte{7: 0x80}},
		"e": {DType: onnxgraph.Uint8, Shape: []int64{0, 3}},
		"s": {DType: onnxgraph.String, Shape: []int64{3}, Strings: []string{"a", "b c", "a"}},
		"l": {DType: onnxgraph.Int32, Shape: []int64{1}, Raw: []byte{7, 0, 0, 0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, text := range []string{"x", "x=7", "x=f<2", "x=q[1]", `s=string["a`} {
		if _, err := ParseValues(text); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestParse(t *testing.T) {
	m, err := Parse(`opset 13; x[N,4] s:i64[]; y = Add{axis=1}(x, u8<2>[1,2]); Relu(y), s`)
	if err != nil {
		t.Fatal(err)
	}
	if m.Opset != 13 || len(m.Inputs) != 2 || m.Inputs[0].Axis != 0 || m.Inputs[1].Axis != -1 ||
		!reflect.DeepEqual(m.Ops, []string{"Add", "Relu"}) || len(m.Graph.Marshal()) == 0 {
		t.Errorf("read as %+v", m)
	}
	for _, text := range []string{"", "x[N]", "x[N]; y = ", "x:q[N]; x", "x[N]; Relu(x"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
