package wire_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/wire"
	"github.com/weftserve/weft/server/wire/elements"
)

func TestRepresentationsAgree(t *testing.T) {
	for _, tt := range servertest.Representations {
		t.Run(tt.DType.String(), func(t *testing.T) {
			typed := proto.CloneOf(tt.Typed)
			typed.Dtype, typed.Shape = wire.DataType(tt.DType), []int64{2}
			want := tensor.Tensor{DType: tt.DType, Shape: tensor.Shape{2}, Data: []byte(tt.Raw)}

			got, how, err := wire.Decode(&tensor.Spec{DType: tt.DType, Shape: tensor.Shape{tensor.Unknown}}, typed)
			if err != nil {
				t.Fatal(err)
			}
			if how != elements.Typed {
				t.Errorf("typed elements came in form %d", how)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("typed (-want +got):\n%s", diff)
			}
			raw := &weftv1.Tensor{Dtype: typed.GetDtype(), Shape: []int64{2}, Raw: []byte(tt.Raw)}
			if tt.DType != tensor.String {
				got, how, err = wire.Decode(&tensor.Spec{DType: tt.DType, Shape: tensor.Shape{tensor.Unknown}}, raw)
				if err != nil {
					t.Fatal(err)
				}
				if how != elements.AsRaw {
					t.Errorf("raw elements came in form %d", how)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("raw (-want +got):\n%s", diff)
				}
			}

			for asRaw, message := range map[bool]*weftv1.Tensor{false: typed, true: raw} {
				if tt.DType == tensor.String {
					message = typed
				}
				if diff := cmp.Diff(message, wire.Encode(want, asRaw), protocmp.Transform()); diff != "" {
					t.Errorf("encoded, raw %v (-want +got):\n%s", asRaw, diff)
				}
			}
		})
	}
	if len(servertest.Representations) != len(weftv1.DataType_name)-1 {
		t.Errorf("%d of %d element types tried", len(servertest.Representations), len(weftv1.DataType_name)-1)
	}
}

func TestEmptyAndScalarTensors(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   *weftv1.Tensor
		want tensor.Tensor
	}{
		{"no rows, no elements", &weftv1.Tensor{Shape: []int64{0, 4}}, tensor.Tensor{Shape: tensor.Shape{0, 4}}},
		{"scalar", &weftv1.Tensor{FloatValues: []float32{0}}, tensor.Tensor{Data: make([]byte, 4)}},
		{"empty cache", &weftv1.Tensor{Shape: []int64{1, 4, 0, 64}}, tensor.Tensor{Shape: tensor.Shape{1, 4, 0, 64}}},
		{
			"zero times the most", &weftv1.Tensor{Shape: []int64{0, 1 << 10, 1 << 10, 0}},
			tensor.Tensor{Shape: tensor.Shape{0, 1 << 10, 1 << 10, 0}},
		},
	} {
		tt.in.Dtype, tt.want.DType = weftv1.DataType_DATA_TYPE_FP32, tensor.Float32
		got, _, err := wire.Decode(&tensor.Spec{DType: tensor.Float32, Shape: tt.in.GetShape()}, tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const (
		fp32   = weftv1.DataType_DATA_TYPE_FP32
		i8     = weftv1.DataType_DATA_TYPE_INT8
		i16    = weftv1.DataType_DATA_TYPE_INT16
		u8     = weftv1.DataType_DATA_TYPE_UINT8
		u16    = weftv1.DataType_DATA_TYPE_UINT16
		boolT  = weftv1.DataType_DATA_TYPE_BOOL
		str    = weftv1.DataType_DATA_TYPE_STRING
		noType = weftv1.DataType_DATA_TYPE_UNSPECIFIED
	)
	four := []float32{1, 2, 3, 4}
	for _, tt := range []struct {
		name  string
		dtype tensor.DType
		in    *weftv1.Tensor
		want  string
	}{
		{"no message", tensor.Float32, nil, `dtype: expected fp32, got DATA_TYPE_UNSPECIFIED (0)`},
		{
			"no dtype", tensor.Float32, &weftv1.Tensor{Dtype: noType},
			`dtype: expected fp32, got DATA_TYPE_UNSPECIFIED (0)`,
		},
		{"unknown dtype", tensor.Float32, &weftv1.Tensor{Dtype: 99}, `dtype: expected fp32, got 99 (99)`},
		{"other dtype", tensor.Float32, &weftv1.Tensor{Dtype: u8}, `dtype: expected fp32, got uint8`},
		{
			"negative dimension", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{2, -1}},
			`shape: expected dimensions that are not negative, of less than 2 GiB in all, got [2,-1]`,
		},
		{
			"overflow", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 40, 1 << 40}},
			`shape: expected dimensions that are not negative, of less than 2 GiB in all, got [1099511627776,1099511627776]`,
		},
		{
			"overflow to zero", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 32, 1 << 32}},
			`shape: expected dimensions that are not negative, of less than 2 GiB in all, got [4294967296,4294967296]`,
		},
		{
			"2 GiB", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 29}},
			`shape: expected less than 2 GiB of elements, got [536870912], 536870912 elements of 4 bytes`,
		},
		{
			"2 Gi strings", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1 << 31}},
			`shape: expected less than 2 GiB of elements, got [2147483648], 2147483648 elements of 1 bytes`,
		},
		{
			"rank", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: make([]int64, 33)},
			`shape: expected at most 32 dimensions, got 33`,
		},
		{
			"zero times huge", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 60, 1, 0}},
			`shape: expected dimensions other than 0 whose product is at most 1048576, as no elements come with them, got [1152921504606846976,1,0]`,
		},
		{
			"zero times just too much", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1<<20 + 1, 0}},
			`shape: expected dimensions other than 0 whose product is at most 1048576, as no elements come with them, got [1048577,0]`,
		},
		{
			"zero times a product", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1 << 20, 0, 2}},
			`shape: expected dimensions other than 0 whose product is at most 1048576, as no elements come with them, got [1048576,0,2]`,
		},
		{
			"nothing", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{4}},
			`: expected 4 elements (shape [4]) in raw or float_values, got none`,
		},
		{
			"no strings", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{4}},
			`: expected 4 elements (shape [4]) in string_values, got none`,
		},
		{
			"two representations", tensor.Float32,
			&weftv1.Tensor{Dtype: fp32, Shape: []int64{4}, Raw: make([]byte, 16), FloatValues: four},
			`: expected one representation of the elements, got raw and float_values`,
		},
		{
			"two lists", tensor.Float32,
			&weftv1.Tensor{Dtype: fp32, Shape: []int64{4}, DoubleValues: make([]float64, 4), FloatValues: four},
			`: expected one representation of the elements, got float_values and double_values`,
		},
		{
			"two representations of no elements", tensor.Float32,
			&weftv1.Tensor{Dtype: fp32, Shape: []int64{0}, Raw: []byte{0}, FloatValues: four},
			`: expected one representation of the elements, got raw and float_values`,
		},
		{
			"elements where there are none", tensor.Float32,
			&weftv1.Tensor{Dtype: fp32, Shape: []int64{0}, FloatValues: four},
			`float_values: expected 0 elements (shape [0]), got 4 elements`,
		},
		{
			"list of another type", tensor.Float32,
			&weftv1.Tensor{Dtype: fp32, Shape: []int64{4}, DoubleValues: make([]float64, 4)},
			`double_values: expected fp32 elements in raw or float_values, got double_values`,
		},
		{
			"raw strings", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1}, Raw: []byte("\x01\x00\x00\x00a")},
			`raw: expected string elements in string_values, got raw`,
		},
		{
			"a byte too few", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{2, 2}, Raw: make([]byte, 15)},
			`raw: expected 16 bytes (shape [2,2] of fp32), got 15 bytes`,
		},
		{
			"a byte too many", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{2, 2}, Raw: make([]byte, 17)},
			`raw: expected 16 bytes (shape [2,2] of fp32), got 17 bytes`,
		},
		{
			"an element too few", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{5}, FloatValues: four},
			`float_values: expected 5 elements (shape [5]), got 4 elements`,
		},
		{
			"an element too many", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{3}, FloatValues: four},
			`float_values: expected 3 elements (shape [3]), got 4 elements`,
		},
		{
			"a string too many", tensor.String,
			&weftv1.Tensor{Dtype: str, Shape: []int64{1}, StringValues: make([][]byte, 2)},
			`string_values: expected 1 elements (shape [1]), got 2 elements`,
		},
		{
			"raw bool", tensor.Bool, &weftv1.Tensor{Dtype: boolT, Shape: []int64{3}, Raw: []byte{1, 0, 0xff}},
			`raw: expected 0 or 1 for each bool, got 255 at byte 2`,
		},
		{
			"int8 above", tensor.Int8, &weftv1.Tensor{Dtype: i8, Shape: []int64{2}, Int32Values: []int32{127, 128}},
			`int32_values[1]: expected int8 (-128 to 127), got 128`,
		},
		{
			"int8 below", tensor.Int8, &weftv1.Tensor{Dtype: i8, Shape: []int64{1}, Int32Values: []int32{-129}},
			`int32_values[0]: expected int8 (-128 to 127), got -129`,
		},
		{
			"int16 above", tensor.Int16, &weftv1.Tensor{Dtype: i16, Shape: []int64{1}, Int32Values: []int32{32768}},
			`int32_values[0]: expected int16 (-32768 to 32767), got 32768`,
		},
		{
			"uint8 above", tensor.Uint8, &weftv1.Tensor{Dtype: u8, Shape: []int64{1}, Uint32Values: []uint32{256}},
			`uint32_values[0]: expected uint8 (0 to 255), got 256`,
		},
		{
			"uint16 above", tensor.Uint16, &weftv1.Tensor{Dtype: u16, Shape: []int64{1}, Uint32Values: []uint32{1 << 16}},
			`uint32_values[0]: expected uint16 (0 to 65535), got 65536`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := wire.Decode(&tensor.Spec{DType: tt.dtype, Shape: tt.in.GetShape()}, tt.in)
			if _, ok := errors.AsType[*tensor.FieldError](err); !ok || err.Error() != tt.want {
				t.Errorf("error is %v (%T)\nwant %s", err, err, tt.want)
			}
		})
	}
}

// TestDecodePieces: a tensor whose elements came in several pieces, or in a typed list, is what it is in one, and
// refused as that.
func TestDecodePieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	changes := []func(*weftv1.Tensor){
		func(*weftv1.Tensor) {},
		func(m *weftv1.Tensor) { m.Shape = []int64{3} },
		func(m *weftv1.Tensor) {
			if n := len(m.GetRaw()); n > 0 {
				m.Raw[n-1] = 2 // is no bool
			}
		},
		func(m *weftv1.Tensor) { m.Dtype = weftv1.DataType_DATA_TYPE_INT8 },
	}
	for i := range len(servertest.Representations) * 2 * len(changes) {
		tt, raw, change := servertest.Representations[i/2/len(changes)], i/len(changes)%2 == 0, changes[i%len(changes)]
		if tt.DType == tensor.String {
			continue
		}
		m := wire.Encode(tensor.Tensor{DType: tt.DType, Shape: tensor.Shape{2}, Data: []byte(tt.Raw)}, raw)
		m.Raw = slices.Clone(m.GetRaw())
		change(m)
		spec := tensor.Spec{Name: "x", DType: wire.DType(m.GetDtype()), Shape: tensor.Shape{tensor.Unknown}}
		data, err := proto.Marshal(&weftv1.PredictRequest{
			Model:  &weftv1.ModelSpec{Name: "m"},
			Inputs: map[string]*weftv1.Tensor{"x": m},
		})
		if err != nil {
			t.Fatal(err)
		}
		var in wire.Inbound
		if !in.Scan(split(rng, data), false) {
			t.Fatal("it was not read by hand")
		}
		want, form, wantErr := wire.Decode(&spec, m)
		got, as, err := in.Decode(&spec)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || as != form {
			t.Errorf("%v: read as %v with the error %v, want %v and %v", tt.DType, as, err, form, wantErr)
		} else if diff := cmp.Diff(want.Clone(), got.Clone()); err == nil && diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.DType, diff)
		}
	}
}

// A message is read by the type that it names; one of a later release is not.
func TestTensor(t *testing.T) {
	for _, tt := range servertest.Representations {
		want := tensor.Tensor{DType: tt.DType, Shape: tensor.Shape{2}, Data: []byte(tt.Raw)}
		for _, raw := range []bool{false, true} {
			got, err := wire.Tensor(wire.Encode(want, raw))
			if err != nil {
				t.Errorf("%v: %v", tt.DType, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.DType, diff)
			}
		}
	}
	for want, m := range map[string]*weftv1.Tensor{
		"dtype: expected an element type that this release knows, got 99 (99)": {Dtype: 99},
		"shape: expected dimensions that are not negative, of less than 2 GiB in all, got [-1]": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1},
		},
	} {
		if _, err := wire.Tensor(m); err == nil || err.Error() != want {
			t.Errorf("the error is %v\nwant %s", err, want)
		}
	}
}
