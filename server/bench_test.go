package server

import (
	"fmt"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// BenchmarkNewCall measures checking and decoding one fp32 input of so many bytes.
func BenchmarkNewCall(b *testing.B) {
	version := oneType(tensor.Float32)
	for _, size := range []int{64, 4 << 10, 600 << 10} {
		inputs := map[string]*weftv1.Tensor{
			"raw":   {Raw: make([]byte, size)},
			"typed": {FloatValues: make([]float32, size/4)},
		}
		for _, how := range []string{"raw", "typed"} {
			in := inputs[how]
			in.Dtype, in.Shape = weftv1.DataType_DATA_TYPE_FP32, []int64{int64(size / 4)}
			req := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "one"}, Inputs: map[string]*weftv1.Tensor{"x": in}}
			b.Run(fmt.Sprintf("%s/%dB", how, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := newCall(req, version); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
