package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// A typed list and the same elements as raw bytes give the same tensor.
func TestTensorOf(t *testing.T) {
	tests := []struct {
		dtype weftv1.DataType
		typed *weftv1.Tensor
		want  tensor.DType
		data  []byte
	}{
		{weftv1.DataType_DATA_TYPE_BOOL, &weftv1.Tensor{BoolValues: []bool{true, false}}, tensor.Bool, []byte{1, 0}},
		{weftv1.DataType_DATA_TYPE_UINT8, &weftv1.Tensor{Uint32Values: []uint32{200, 1}}, tensor.Uint8, []byte{200, 1}},
		{weftv1.DataType_DATA_TYPE_UINT16, &weftv1.Tensor{Uint32Values: []uint32{0x102, 3}}, tensor.Uint16, []byte{2, 1, 3, 0}},
		{weftv1.DataType_DATA_TYPE_UINT32, &weftv1.Tensor{Uint32Values: []uint32{0x1020304, 5}}, tensor.Uint32, []byte{4, 3, 2, 1, 5, 0, 0, 0}},
		{weftv1.DataType_DATA_TYPE_UINT64, &weftv1.Tensor{Uint64Values: []uint64{1, 2}}, tensor.Uint64, []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}},
		{weftv1.DataType_DATA_TYPE_INT8, &weftv1.Tensor{Int32Values: []int32{-1, 2}}, tensor.Int8, []byte{255, 2}},
		{weftv1.DataType_DATA_TYPE_INT16, &weftv1.Tensor{Int32Values: []int32{-2, 2}}, tensor.Int16, []byte{254, 255, 2, 0}},
		{weftv1.DataType_DATA_TYPE_INT32, &weftv1.Tensor{Int32Values: []int32{-2, 2}}, tensor.Int32, []byte{254, 255, 255, 255, 2, 0, 0, 0}},
		{weftv1.DataType_DATA_TYPE_INT64, &weftv1.Tensor{Int64Values: []int64{-2, 2}}, tensor.Int64, []byte{254, 255, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0, 0, 0}},
		{weftv1.DataType_DATA_TYPE_FP16, &weftv1.Tensor{FloatValues: []float32{1, -2}}, tensor.Float16, []byte{0, 0x3c, 0, 0xc0}},
		{weftv1.DataType_DATA_TYPE_BF16, &weftv1.Tensor{FloatValues: []float32{1, -2}}, tensor.BFloat16, []byte{0x80, 0x3f, 0, 0xc0}},
		{weftv1.DataType_DATA_TYPE_FP32, &weftv1.Tensor{FloatValues: []float32{1, -2}}, tensor.Float32, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
		{weftv1.DataType_DATA_TYPE_FP64, &weftv1.Tensor{DoubleValues: []float64{1, -2}}, tensor.Float64, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}},
		{weftv1.DataType_DATA_TYPE_STRING, &weftv1.Tensor{StringValues: [][]byte{[]byte("a"), nil}}, tensor.String, []byte{1, 0, 0, 0, 'a', 0, 0, 0, 0}},
	}
	if want := len(weftv1.DataType_name) - 1; len(tests) != want {
		t.Errorf("%d types are tried, there are %d", len(tests), want)
	}
	for _, tt := range tests {
		want := tensor.Tensor{DType: tt.want, Shape: tensor.Shape{2}, Data: tt.data}
		if err := want.Check(); err != nil {
			t.Fatalf("%v: %v", tt.dtype, err)
		}
		tt.typed.Dtype, tt.typed.Shape = tt.dtype, []int64{2}
		if diff := cmp.Diff(want, tensorOf(tt.typed)); diff != "" {
			t.Errorf("%v typed (-want +got):\n%s", tt.dtype, diff)
		}
		if tt.want == tensor.String {
			continue
		}
		if diff := cmp.Diff(want, tensorOf(&weftv1.Tensor{Dtype: tt.dtype, Shape: []int64{2}, Raw: tt.data})); diff != "" {
			t.Errorf("%v raw (-want +got):\n%s", tt.dtype, diff)
		}
	}
	if got := tensorOf(&weftv1.Tensor{Dtype: 99}); got.Check() == nil {
		t.Error("a type of a later release gives a whole tensor")
	}
}
