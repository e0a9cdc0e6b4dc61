package weftapi_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/weftapi"
	"github.com/weftserve/weft/server/wire"
)

// everyType takes one input of each element type, open in both dimensions, and one shared by all rows.
func everyType() *catalog.Version {
	sig := &tensor.Signature{}
	for _, tt := range servertest.Representations {
		sig.Inputs = append(sig.Inputs, tensor.Spec{
			Name: tt.DType.String(), DType: tt.DType, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}, BatchDim: 0,
		})
	}
	sig.Inputs = append(sig.Inputs, tensor.Spec{Name: "shared", DType: tensor.Float32, BatchDim: tensor.NoBatch})
	sig.Outputs = sig.Inputs[:2]
	return &catalog.Version{
		Model: "every", Number: 1, State: catalog.Ready, Signature: sig,
		Batching: catalog.Batching{Batched: true, MaxRequestRows: 8},
	}
}

// oneType takes one input, so that a fuzzer gets past the names.
func oneType(dtype tensor.DType) *catalog.Version {
	sig := &tensor.Signature{Inputs: []tensor.Spec{{
		Name: "x", DType: dtype, Shape: tensor.Shape{tensor.Unknown},
		BatchDim: 0,
	}}}
	return &catalog.Version{Model: "one", Number: 1, State: catalog.Ready, Signature: sig}
}

const (
	// The bytes that decoding may allocate: maxExpansion for each byte received (see wire.Decode), and a constant for
	// the call, its messages and all else that the process does meanwhile.
	maxExpansion  = 8
	fixedOverhead = 64 << 10
)

// allocated returns the bytes of heap that f allocates, freed again or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzRequest feeds arbitrary bytes to the decoder and the checks behind it. They must not crash, must not allocate by
// the sizes that a message claims, must refuse in a way that callers can read, and must let through only tensors that
// are whole.
func FuzzRequest(f *testing.F) {
	for _, req := range seedRequests() {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	decoders := []*decoder{newDecoder(everyType())}
	for _, tt := range servertest.Representations {
		decoders = append(decoders, newDecoder(oneType(tt.DType)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &weftv1.PredictRequest{}
		if proto.Unmarshal(data, req) != nil {
			return
		}
		for _, d := range decoders {
			var (
				call *catalog.Call
				err  error
			)
			read := weftapi.NewRequest(req)
			used := allocated(func() { call, err = d.read(t.Context(), read) })
			if most := uint64(maxExpansion*len(data) + fixedOverhead); used > most {
				t.Errorf("%d bytes allocated for %d received, want at most %d", used, len(data), most)
			}
			if err != nil {
				checkRefusal(t, err)
				continue
			}
			checkCall(t, call)
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*tensor.FieldError](err); !ok {
		t.Errorf("refused with %T: %v", err, err)
	}
	if len(err.Error()) > 2*predict.MaxText {
		t.Errorf("message of %d bytes", len(err.Error()))
	}
	for _, r := range err.Error() {
		if r < ' ' || r > '~' {
			t.Fatalf("message holds %q: %q", r, err)
		}
	}
}

func checkCall(t *testing.T, call *catalog.Call) {
	t.Helper()
	if call.Rows < 0 {
		t.Errorf("%d rows", call.Rows)
	}
	for i, in := range call.Inputs {
		spec := call.Version.Signature.Inputs[i]
		if in.DType != spec.DType {
			t.Errorf("input %q is %v", spec.Name, in.DType)
		}
		if err := in.Check(); err != nil {
			t.Fatalf("input %q was let through: %v", spec.Name, err)
		}
		again, _, err := wire.Decode(&spec, wire.Encode(in, true))
		if err != nil {
			t.Fatalf("input %q does not survive a round trip: %v", spec.Name, err)
		}
		if len(again.Data) == 0 && len(in.Data) == 0 {
			again.Data = in.Data
		}
		if diff := cmp.Diff(in, again); diff != "" {
			t.Errorf("input %q changes on a round trip:\n%s", spec.Name, diff)
		}
	}
}

// seedRequests are valid requests in every representation, and the usual attacks.
func seedRequests() []*weftv1.PredictRequest {
	var seeds []*weftv1.PredictRequest
	request := func(inputs map[string]*weftv1.Tensor) {
		seeds = append(seeds, &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "one"}, Inputs: inputs})
	}
	one := func(t *weftv1.Tensor) { request(map[string]*weftv1.Tensor{"x": t}) }

	all := map[string]*weftv1.Tensor{"shared": {Dtype: weftv1.DataType_DATA_TYPE_FP32, FloatValues: []float32{1}}}
	for _, tt := range servertest.Representations {
		typed := proto.CloneOf(tt.Typed)
		typed.Dtype, typed.Shape = wire.DataType(tt.DType), []int64{2}
		one(typed)
		if tt.DType != tensor.String {
			one(&weftv1.Tensor{Dtype: typed.GetDtype(), Shape: []int64{2}, Raw: []byte(tt.Raw)})
		}
		matrix := proto.CloneOf(typed)
		matrix.Shape = []int64{2, 1}
		all[tt.DType.String()] = matrix
	}
	request(all)

	const fp32 = weftv1.DataType_DATA_TYPE_FP32
	for _, shape := range [][]int64{
		{math.MaxInt64},
		{1 << 29},
		{1 << 31},
		{1 << 32, 1 << 32},
		{-1},
		{math.MinInt64},
		{0, math.MaxInt64},
		{1 << 60, 1, 0},
		{1 << 26, 0},
		{2, -2, 0},
		make([]int64, 1000),
	} {
		one(&weftv1.Tensor{Dtype: fp32, Shape: shape})
		one(&weftv1.Tensor{Dtype: fp32, Shape: shape, Raw: make([]byte, 16)})
		one(&weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_STRING, Shape: shape, StringValues: [][]byte{nil}})
	}
	one(&weftv1.Tensor{Dtype: fp32, Shape: []int64{2}, FloatValues: []float32{1, 2}, DoubleValues: []float64{1, 2}})
	request(map[string]*weftv1.Tensor{"x\n\x00": {}, "х": {}})
	return seeds
}

// TestAllocationIsBounded tries requests that are too big for a fuzzer's seeds.
func TestAllocationIsBounded(t *testing.T) {
	names := make(map[string]*weftv1.Tensor)
	for i := range 1000 {
		names[strings.Repeat("../", i)] = &weftv1.Tensor{}
	}
	const many, few = 1 << 17, 1 << 15
	for _, tt := range []struct {
		name   string
		dtype  tensor.DType
		inputs map[string]*weftv1.Tensor
		err    bool
	}{
		{
			"int64 that travel as a byte", tensor.Int64,
			map[string]*weftv1.Tensor{"x": {Shape: []int64{many}, Int64Values: make([]int64, many)}},
			false,
		},
		{
			"fp32", tensor.Float32,
			map[string]*weftv1.Tensor{"x": {Shape: []int64{many}, FloatValues: make([]float32, many)}},
			false,
		},
		{
			"raw", tensor.Float32,
			map[string]*weftv1.Tensor{"x": {Shape: []int64{many}, Raw: make([]byte, 4*many)}},
			false,
		},
		{
			"empty strings", tensor.String,
			map[string]*weftv1.Tensor{"x": {Shape: []int64{few}, StringValues: make([][]byte, few)}},
			false,
		},
		{"long shape", tensor.Float32, map[string]*weftv1.Tensor{"x": {Shape: make([]int64, many)}}, true},
		{"evil names", tensor.Float32, names, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if x := tt.inputs["x"]; x != nil {
				x.Dtype = wire.DataType(tt.dtype)
			}
			req := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "one"}, Inputs: tt.inputs}
			d := newDecoder(oneType(tt.dtype))
			var err error
			read := weftapi.NewRequest(req)
			used := allocated(func() { _, err = d.read(t.Context(), read) })
			if (err != nil) != tt.err {
				t.Errorf("error is %v", err)
			}
			if most := uint64(maxExpansion*proto.Size(req) + fixedOverhead); used > most {
				t.Errorf("%d bytes allocated for %d received, want at most %d", used, proto.Size(req), most)
			}
		})
	}
}

// TestAllocationCheckCanFail holds the fuzz target's yardstick against a decoder that believes the claims of a message.
func TestAllocationCheckCanFail(t *testing.T) {
	claim := &weftv1.Tensor{Shape: []int64{1 << 20}}
	var data []byte
	used := allocated(func() { data = make([]byte, claim.GetShape()[0]) })
	if used < uint64(len(data)) || used <= uint64(maxExpansion*proto.Size(claim)+fixedOverhead) {
		t.Errorf("a decoder that allocates %d bytes for a claim passes with %d", len(data), used)
	}
}
