package execution

import (
	"slices"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestForget: a job that is run once more may have as many bytes of outputs as before.
func TestForget(t *testing.T) {
	u, _ := batched(echo)
	u.MaxAnswer = 4
	x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{4}, Data: []byte("abcd")}
	j := &Job{Unit: u, Rows: 4, Inputs: []tensor.Tensor{x}}
	for range 2 {
		j.Forget()
		for _, first := range []int{0, 2} {
			b := &sharedsched.Batch{
				Rows: 2, Padded: 2, Spans: []sharedsched.Span{{Payload: j, First: first, Rows: 2}},
			}
			if Execute(b); b.Spans[0].Err != nil {
				t.Fatalf("row %d: %v", first, b.Spans[0].Err)
			}
		}
		outputs, err := j.Join()
		if err != nil || !slices.Equal(outputs[0].Data, x.Data) {
			t.Fatalf("%v, %v", outputs, err)
		}
	}
}
