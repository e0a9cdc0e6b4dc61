package ort_test

import (
	"bytes"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestAnOutputThatIsNotWritten where it was expected is found, in each run before it is known, and copied.
func TestAnOutputThatIsNotWritten(t *testing.T) {
	eachType(t, func(t *testing.T, d tensor.DType) {
		g := onnxgraph.New("unwritten").Input("x", elementTypes[d], "n", 1).Output("x", elementTypes[d], "n", 1)
		s := openGraph(t, g.Output("y", elementTypes[d], "n", 1).Node("Identity", []string{"x"}, []string{"y"}).Marshal())
		s.PlaceAll()
		for _, copied := range []bool{true, false} {
			for _, rows := range []int64{0, 1, 3, 9} {
				x := sample(d, tensor.Shape{rows, 1})
				b := batchOf(t, s, x)
				b.Copied = copied
				if err := s.Run(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				for _, got := range outputs(t, b) {
					if got.Shape[0] != rows || !bytes.Equal(got.Data, x.Data) {
						t.Errorf("copied %t, %d rows: %v, want %v", copied, rows, got, x)
					}
				}
			}
			// A mark may be the answer by chance where the answer is a byte.
			if placed := !copied && d != tensor.String; d.Size() > 1 && s.Unpredictable() != placed {
				t.Errorf("copied %t: the session writes into no place: %t", copied, s.Unpredictable())
			}
		}
	})
}

// TestMarksThatAreAnswers: a model whose answers begin like a place that was not written goes on as before.
func TestMarksThatAreAnswers(t *testing.T) {
	g := onnxgraph.New("bytes").Input("x", onnxgraph.Uint8, "n").Output("y", onnxgraph.Uint8, "n")
	s := openGraph(t, g.Node("Identity", []string{"x"}, []string{"y"}).Marshal())
	for v := range 4096 { // some of them are marks
		x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{byte(v)}}
		if got := runOnce(t, s, x)[0]; got.Data[0] != byte(v) {
			t.Fatalf("%d is answered with %d", byte(v), got.Data[0])
		}
	}
	if s.Unpredictable() {
		t.Error("an answer was taken for a place that was not written")
	}
}
