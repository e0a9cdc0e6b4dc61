package weftapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/weftapi"
)

// echo answers with its only input at once.
type echo struct{ *decoder }

func (echo) Predict(_ context.Context, call *catalog.Call) error {
	in := &call.Inputs[0]
	data := *call.Memory.Get(len(in.Data))
	copy(data, in.Data)
	call.Results = []tensor.Tensor{{DType: in.DType, Shape: slices.Clone(in.Shape), Data: data}}
	return nil
}

// BenchmarkPredict measures the way of a request with one fp32 input of so many bytes through the server, without gRPC
// and without a model: it is read, routed, decoded, answered with its input, and encoded.
func BenchmarkPredict(b *testing.B) {
	version := oneType(tensor.Float32)
	version.Signature.Outputs = version.Signature.Inputs
	memory := &tensor.Recycler{}
	pipeline := predict.New(predict.Config{
		Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Memory: memory,
	}, echo{newDecoder(version)})
	calls := &transport.Calls{Pipeline: pipeline, MaxMessageBytes: 16 << 20, Memory: memory}
	predictions := weftapi.Predictions{API: &weftapi.API{Calls: calls}}
	for _, size := range []int{64, 4 << 10, 600 << 10} {
		inputs := map[string]*weftv1.Tensor{
			"raw":   {Raw: make([]byte, size)},
			"typed": {FloatValues: make([]float32, size/4)},
		}
		for _, how := range []string{"raw", "typed"} {
			in := inputs[how]
			in.Dtype, in.Shape = weftv1.DataType_DATA_TYPE_FP32, []int64{int64(size / 4)}
			req, err := proto.Marshal(&weftv1.PredictRequest{
				Model:  &weftv1.ModelSpec{Name: "one"},
				Inputs: map[string]*weftv1.Tensor{"x": in},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%dB", how, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					request := predictions.NewRequest("Predict")
					if err := request.Take(mem.BufferSlice{mem.SliceBuffer(req)}); err != nil {
						b.Fatal(err)
					}
					answer, err := calls.Run(b.Context(), request)
					if err != nil {
						b.Fatal(err)
					}
					if encoded, is := answer.(*transport.Encoded); is {
						encoded.Pieces().Free()
					}
				}
			})
		}
	}
}
