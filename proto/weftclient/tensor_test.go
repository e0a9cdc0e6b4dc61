package weftclient_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/tensor"
)

// roundTrip sends made-up values of each rank to a model that gives back what it gets.
func roundTrip[T weftclient.Element](
	t *testing.T, client *weftclient.Client, dtype tensor.DType, draw func(*rand.Rand) T,
) {
	t.Helper()
	values := rand.New(rand.NewPCG(7, uint64(dtype)))
	for trial := range 60 {
		shape, elements := make([]int64, trial%4), int64(1)
		for i := range shape {
			shape[i] = values.Int64N(4)
			elements *= shape[i]
		}
		sent := make([]T, elements)
		for i := range sent {
			sent[i] = draw(values)
		}
		x := weftclient.FromSlice(sent, shape...)
		if len(shape) == 0 {
			x = weftclient.Scalar(sent[0])
		}
		answer, err := client.Predict(t.Context(), &weftclient.Request{
			Model: weftclient.Model(fmt.Sprintf("%v/%d", dtype, len(shape))), Inputs: weftclient.Tensors{"x": x},
		})
		if err != nil {
			t.Fatal(err)
		}
		y := answer.Outputs["y"]
		got, err := weftclient.Values[T](y)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, got, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%v %v (-sent +got):\n%s", dtype, shape, diff)
		}
		if diff := cmp.Diff(shape, y.GetShape(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v: shape (-sent +got):\n%s", dtype, diff)
		}
	}
}

type torque float64

func TestRoundTrip(t *testing.T) {
	client := dial(t, nil)
	roundTrip(t, client, tensor.Bool, func(r *rand.Rand) bool { return r.IntN(2) == 1 })
	roundTrip(t, client, tensor.Int8, func(r *rand.Rand) int8 { return int8(r.Uint64()) })
	roundTrip(t, client, tensor.Int16, func(r *rand.Rand) int16 { return int16(r.Uint64()) })
	roundTrip(t, client, tensor.Int32, func(r *rand.Rand) int32 { return int32(r.Uint64()) })
	roundTrip(t, client, tensor.Int64, func(r *rand.Rand) int64 { return int64(r.Uint64()) })
	roundTrip(t, client, tensor.Uint8, func(r *rand.Rand) uint8 { return uint8(r.Uint64()) })
	roundTrip(t, client, tensor.Uint16, func(r *rand.Rand) uint16 { return uint16(r.Uint64()) })
	roundTrip(t, client, tensor.Uint32, func(r *rand.Rand) uint32 { return uint32(r.Uint64()) })
	roundTrip(t, client, tensor.Uint64, func(r *rand.Rand) uint64 { return r.Uint64() })
	roundTrip(t, client, tensor.Float32, func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32()) })
	roundTrip(t, client, tensor.Float64, func(r *rand.Rand) float64 { return math.Float64frombits(r.Uint64()) })
	roundTrip(t, client, tensor.Float64, func(r *rand.Rand) torque { return torque(r.NormFloat64()) })
	roundTrip(t, client, tensor.String, func(r *rand.Rand) string {
		text := make([]byte, r.IntN(5))
		for i := range text {
			text[i] = byte(r.Uint32()) // UTF-8 or not
		}
		return string(text)
	})
}

// TestHalves reads every number of two bytes.
func TestHalves(t *testing.T) {
	client := dial(t, nil)
	raw := make([]byte, 0, 2<<16)
	for bits := range 1 << 16 {
		raw = append(raw, byte(bits), byte(bits>>8))
	}
	for dtype, want := range map[tensor.DType]func(uint16) float32{
		tensor.Float16: tensor.Float16Value, tensor.BFloat16: tensor.BFloat16Value,
	} {
		x := &weftclient.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP16, Shape: []int64{1 << 16}, Raw: raw}
		if dtype == tensor.BFloat16 {
			x.Dtype = weftv1.DataType_DATA_TYPE_BF16
		}
		answer, err := client.Predict(t.Context(), &weftclient.Request{
			Model: weftclient.Model(dtype.String() + "/1"), Inputs: weftclient.Tensors{"x": x},
		})
		if err != nil {
			t.Fatal(err)
		}
		values, err := weftclient.Values[float32](answer.Outputs["y"])
		if err != nil || len(values) != 1<<16 {
			t.Fatalf("%d values: %v", len(values), err)
		}
		for bits, got := range values {
			if math.Float32bits(got) != math.Float32bits(want(uint16(bits))) {
				t.Fatalf("%v %#04x: %v, want %v", dtype, bits, got, want(uint16(bits)))
			}
		}
	}
}

func TestFromSlice(t *testing.T) {
	for _, tt := range []struct {
		got  *weftclient.Tensor
		want string
	}{
		{weftclient.FromSlice([]int16{1, -1}), `dtype:DATA_TYPE_INT16 shape:2 raw:"\x01\x00\xff\xff"`},
		{weftclient.FromSlice([]float32{1}, 1, 1), `dtype:DATA_TYPE_FP32 shape:1 shape:1 raw:"\x00\x00\x80?"`},
		{weftclient.FromSlice([]string{"a", ""}, 2), `dtype:DATA_TYPE_STRING shape:2 string_values:"a" string_values:""`},
		{weftclient.FromSlice([]bool{}, 0, 3), `dtype:DATA_TYPE_BOOL shape:0 shape:3`},
		{weftclient.Scalar(true), `dtype:DATA_TYPE_BOOL raw:"\x01"`},
	} {
		if got := strings.Join(strings.Fields(tt.got.String()), " "); got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

func TestValuesRefuses(t *testing.T) {
	for want, tt := range map[string]*weftclient.Tensor{
		"there is no such tensor": nil,
		"a tensor of DATA_TYPE_INT64 cannot be read as float32, which is for DATA_TYPE_FP32": weftclient.FromSlice([]int64{1}),
		"a tensor of shape [2] has 0 elements, not 2; expected them raw": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{2}, FloatValues: []float32{1, 2},
		},
		"a tensor of shape [-1 -1]; expected no negative sizes": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, -1}, Raw: []byte{0, 0, 0, 0},
		},
		"5 bytes are no whole number of elements of DATA_TYPE_FP32": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1}, Raw: []byte{0, 0, 0, 0, 0},
		},
		"a tensor of shape [2] has 1 elements, not 2": {Dtype: weftv1.DataType_DATA_TYPE_FP16, Shape: []int64{2}, Raw: []byte{1, 2, 3}},
	} {
		if values, err := weftclient.Values[float32](tt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v\nwant ...%s...", values, err, want)
		}
	}
	if _, err := weftclient.Values[string](weftclient.FromSlice([]uint8{1})); err == nil {
		t.Error("numbers were read as texts")
	}
	half := &weftclient.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP16, Shape: []int64{1}, Raw: []byte{0, 0}}
	if _, err := weftclient.Values[uint16](half); err == nil {
		t.Error("half of a number was read as a whole one")
	}
}
