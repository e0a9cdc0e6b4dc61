package server

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// Each element type, with the same elements raw and as the typed list.
var representations = []struct {
	dtype tensor.DType
	raw   string
	typed *weftv1.Tensor
}{
	{tensor.Bool, "\x00\x01", &weftv1.Tensor{BoolValues: []bool{false, true}}},
	{tensor.Int8, "\x80\x7f", &weftv1.Tensor{Int32Values: []int32{-128, 127}}},
	{tensor.Int16, "\x00\x80\xff\x7f", &weftv1.Tensor{Int32Values: []int32{-32768, 32767}}},
	{tensor.Int32, "\xff\xff\xff\xff\x04\x03\x02\x01", &weftv1.Tensor{Int32Values: []int32{-1, 0x01020304}}},
	{tensor.Int64, "\xfe\xff\xff\xff\xff\xff\xff\xff\x08\x07\x06\x05\x04\x03\x02\x01", &weftv1.Tensor{Int64Values: []int64{-2, 0x0102030405060708}}},
	{tensor.Uint8, "\x00\xff", &weftv1.Tensor{Uint32Values: []uint32{0, 255}}},
	{tensor.Uint16, "\x00\x00\xff\xff", &weftv1.Tensor{Uint32Values: []uint32{0, 65535}}},
	{tensor.Uint32, "\x00\x00\x00\x00\xff\xff\xff\xff", &weftv1.Tensor{Uint32Values: []uint32{0, math.MaxUint32}}},
	{tensor.Uint64, "\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", &weftv1.Tensor{Uint64Values: []uint64{1, math.MaxUint64}}},
	{tensor.Float16, "\x00\x3c\x00\xc0", &weftv1.Tensor{FloatValues: []float32{1, -2}}},
	{tensor.BFloat16, "\x80\x3f\x00\xc0", &weftv1.Tensor{FloatValues: []float32{1, -2}}},
	{tensor.Float32, "\x00\x00\x80\x3f\x00\x00\x00\xc0", &weftv1.Tensor{FloatValues: []float32{1, -2}}},
	{tensor.Float64, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\xc0", &weftv1.Tensor{DoubleValues: []float64{1, -2}}},
	{tensor.String, "\x02\x00\x00\x00\xff\x00\x00\x00\x00\x00", &weftv1.Tensor{StringValues: [][]byte{{0xff, 0}, {}}}},
}

func TestRepresentationsAgree(t *testing.T) {
	for _, tt := range representations {
		t.Run(tt.dtype.String(), func(t *testing.T) {
			tt.typed.Dtype, tt.typed.Shape = wireDTypes[tt.dtype], []int64{2}
			want := tensor.Tensor{DType: tt.dtype, Shape: tensor.Shape{2}, Data: []byte(tt.raw)}

			got, how, err := decodeInput("x", tt.dtype, tt.typed)
			if err != nil {
				t.Fatal(err)
			}
			if how != typedForm(tt.dtype) {
				t.Errorf("typed elements came as %s", formNames[how])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("typed (-want +got):\n%s", diff)
			}
			raw := &weftv1.Tensor{Dtype: tt.typed.GetDtype(), Shape: []int64{2}, Raw: []byte(tt.raw)}
			if tt.dtype != tensor.String {
				got, how, err = decodeInput("x", tt.dtype, raw)
				if err != nil {
					t.Fatal(err)
				}
				if how != formRaw {
					t.Errorf("raw elements came as %s", formNames[how])
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("raw (-want +got):\n%s", diff)
				}
			}

			for asRaw, message := range map[bool]*weftv1.Tensor{false: tt.typed, true: raw} {
				if tt.dtype == tensor.String {
					message = tt.typed
				}
				encoded, err := encodeTensor(want, asRaw)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(message, encoded, protocmp.Transform()); diff != "" {
					t.Errorf("encoded, raw %v (-want +got):\n%s", asRaw, diff)
				}
			}
		})
	}
	if len(representations) != len(wireDTypes) {
		t.Errorf("%d of %d element types tried", len(representations), len(wireDTypes))
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
		{"zero times the most", &weftv1.Tensor{Shape: []int64{0, 1 << 10, 1 << 10, 0}}, tensor.Tensor{Shape: tensor.Shape{0, 1 << 10, 1 << 10, 0}}},
	} {
		tt.in.Dtype, tt.want.DType = weftv1.DataType_DATA_TYPE_FP32, tensor.Float32
		got, _, err := decodeInput("x", tensor.Float32, tt.in)
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
		{"no message", tensor.Float32, nil, `inputs["x"].dtype: expected fp32, got DATA_TYPE_UNSPECIFIED (0)`},
		{"no dtype", tensor.Float32, &weftv1.Tensor{Dtype: noType}, `inputs["x"].dtype: expected fp32, got DATA_TYPE_UNSPECIFIED (0)`},
		{"unknown dtype", tensor.Float32, &weftv1.Tensor{Dtype: 99}, `inputs["x"].dtype: expected fp32, got 99 (99)`},
		{"other dtype", tensor.Float32, &weftv1.Tensor{Dtype: u8}, `inputs["x"].dtype: expected fp32, got uint8`},
		{"negative dimension", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{2, -1}}, `inputs["x"].shape: expected dimensions that are not negative, of less than 2 GiB in all, got [2,-1]`},
		{"overflow", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 40, 1 << 40}}, `inputs["x"].shape: expected dimensions that are not negative, of less than 2 GiB in all, got [1099511627776,1099511627776]`},
		{"overflow to zero", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 32, 1 << 32}}, `inputs["x"].shape: expected dimensions that are not negative, of less than 2 GiB in all, got [4294967296,4294967296]`},
		{"2 GiB", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 29}}, `inputs["x"].shape: expected less than 2 GiB of elements, got [536870912], 536870912 elements of 4 bytes`},
		{"2 Gi strings", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1 << 31}}, `inputs["x"].shape: expected less than 2 GiB of elements, got [2147483648], 2147483648 elements of 1 bytes`},
		{"rank", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: make([]int64, 33)}, `inputs["x"].shape: expected at most 32 dimensions, got 33`},
		{"zero times huge", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1 << 60, 1, 0}}, `inputs["x"].shape: expected dimensions other than 0 whose product is at most 1048576, as no elements come with them, got [1152921504606846976,1,0]`},
		{"zero times just too much", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{1<<20 + 1, 0}}, `inputs["x"].shape: expected dimensions other than 0 whose product is at most 1048576, as no elements come with them, got [1048577,0]`},
		{"zero times a product", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1 << 20, 0, 2}}, `inputs["x"].shape: expected dimensions other than 0 whose product is at most 1048576, as no elements come with them, got [1048576,0,2]`},
		{"nothing", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{4}}, `inputs["x"]: expected 4 elements (shape [4]) in raw or float_values, got none`},
		{"no strings", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{4}}, `inputs["x"]: expected 4 elements (shape [4]) in string_values, got none`},
		{"two representations", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{4}, Raw: make([]byte, 16), FloatValues: four}, `inputs["x"]: expected one representation of the elements, got raw and float_values`},
		{"two lists", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{4}, DoubleValues: make([]float64, 4), FloatValues: four}, `inputs["x"]: expected one representation of the elements, got float_values and double_values`},
		{"two representations of no elements", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{0}, Raw: []byte{0}, FloatValues: four}, `inputs["x"]: expected one representation of the elements, got raw and float_values`},
		{"elements where there are none", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{0}, FloatValues: four}, `inputs["x"].float_values: expected 0 elements (shape [0]), got 4 elements`},
		{"list of another type", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{4}, DoubleValues: make([]float64, 4)}, `inputs["x"].double_values: expected fp32 elements in raw or float_values, got double_values`},
		{"raw strings", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1}, Raw: []byte("\x01\x00\x00\x00a")}, `inputs["x"].raw: expected string elements in string_values, got raw`},
		{"a byte too few", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{2, 2}, Raw: make([]byte, 15)}, `inputs["x"].raw: expected 16 bytes (shape [2,2] of fp32), got 15 bytes`},
		{"a byte too many", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{2, 2}, Raw: make([]byte, 17)}, `inputs["x"].raw: expected 16 bytes (shape [2,2] of fp32), got 17 bytes`},
		{"an element too few", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{5}, FloatValues: four}, `inputs["x"].float_values: expected 5 elements (shape [5]), got 4 elements`},
		{"an element too many", tensor.Float32, &weftv1.Tensor{Dtype: fp32, Shape: []int64{3}, FloatValues: four}, `inputs["x"].float_values: expected 3 elements (shape [3]), got 4 elements`},
		{"a string too many", tensor.String, &weftv1.Tensor{Dtype: str, Shape: []int64{1}, StringValues: make([][]byte, 2)}, `inputs["x"].string_values: expected 1 elements (shape [1]), got 2 elements`},
		{"raw bool", tensor.Bool, &weftv1.Tensor{Dtype: boolT, Shape: []int64{3}, Raw: []byte{1, 0, 0xff}}, `inputs["x"].raw: expected 0 or 1 for each bool, got 255 at byte 2`},
		{"int8 above", tensor.Int8, &weftv1.Tensor{Dtype: i8, Shape: []int64{2}, Int32Values: []int32{127, 128}}, `inputs["x"].int32_values[1]: expected int8 (-128 to 127), got 128`},
		{"int8 below", tensor.Int8, &weftv1.Tensor{Dtype: i8, Shape: []int64{1}, Int32Values: []int32{-129}}, `inputs["x"].int32_values[0]: expected int8 (-128 to 127), got -129`},
		{"int16 above", tensor.Int16, &weftv1.Tensor{Dtype: i16, Shape: []int64{1}, Int32Values: []int32{32768}}, `inputs["x"].int32_values[0]: expected int16 (-32768 to 32767), got 32768`},
		{"uint8 above", tensor.Uint8, &weftv1.Tensor{Dtype: u8, Shape: []int64{1}, Uint32Values: []uint32{256}}, `inputs["x"].uint32_values[0]: expected uint8 (0 to 255), got 256`},
		{"uint16 above", tensor.Uint16, &weftv1.Tensor{Dtype: u16, Shape: []int64{1}, Uint32Values: []uint32{1 << 16}}, `inputs["x"].uint32_values[0]: expected uint16 (0 to 65535), got 65536`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := decodeInput("x", tt.dtype, tt.in)
			if _, ok := errors.AsType[*tensor.FieldError](err); !ok || err.Error() != tt.want {
				t.Errorf("error is %v (%T)\nwant %s", err, err, tt.want)
			}
		})
	}
}

func TestAnswersRaw(t *testing.T) {
	const (
		unspecified = weftv1.OutputEncoding_OUTPUT_ENCODING_UNSPECIFIED
		mirror      = weftv1.OutputEncoding_OUTPUT_ENCODING_MIRROR
		raw         = weftv1.OutputEncoding_OUTPUT_ENCODING_RAW
		typed       = weftv1.OutputEncoding_OUTPUT_ENCODING_TYPED
	)
	for _, tt := range []struct {
		name  string
		asked weftv1.OutputEncoding
		came  [forms]int
		want  bool
	}{
		{"all raw", mirror, [forms]int{formRaw: 2}, true},
		{"all typed", mirror, [forms]int{formFloat: 1, formInt64: 1}, false},
		{"tie", mirror, [forms]int{formRaw: 1, formFloat: 1}, true},
		{"mostly typed", mirror, [forms]int{formRaw: 1, formFloat: 1, formBool: 1}, false},
		{"strings are typed", mirror, [forms]int{formString: 1}, false},
		{"empty ones do not count", mirror, [forms]int{formNone: 3, formFloat: 1}, false},
		{"no inputs", unspecified, [forms]int{}, true},
		{"unspecified mirrors", unspecified, [forms]int{formFloat: 1}, false},
		{"raw for typed", raw, [forms]int{formFloat: 1}, true},
		{"typed for raw", typed, [forms]int{formRaw: 1}, false},
	} {
		if got := answersRaw(tt.asked, &tt.came); got != tt.want {
			t.Errorf("%s: raw is %v", tt.name, got)
		}
	}
}

func TestEncodeRefusesBrokenResults(t *testing.T) {
	specs := []tensor.Spec{{Name: "y", DType: tensor.Float32}}
	_, err := encodeOutputs(specs, nil, []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{2}, Data: make([]byte, 7)}}, true)
	if err == nil || !strings.HasPrefix(err.Error(), `output "y": `) {
		t.Errorf("a short result gives %v", err)
	}
	specs[0].Name = "\xff"
	if _, err := encodeOutputs(specs, nil, []tensor.Tensor{{DType: tensor.Float32, Data: make([]byte, 4)}}, true); err == nil {
		t.Error("a name that no message can carry gives no error")
	}
	if _, err := encodeOutputs(specs, nil, nil, true); err == nil {
		t.Error("a missing result gives no error")
	}
}
