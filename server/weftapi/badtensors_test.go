package weftapi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/wire"
)

// TestMessagesAboutBadTensors makes requests with one wrong tensor at random. Each is refused by a message that names
// the input, repeats the wrong part as it came, and says what was expected.
func TestMessagesAboutBadTensors(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	pick := func(n int) int { return random.IntN(n) }
	literal := func(shape []int64) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ",") }
	seen := map[string]int{}
	for range 20_000 {
		representation := servertest.Representations[pick(len(servertest.Representations))]
		dtype := representation.DType
		name := []string{"x", "observation", "état", "a\"b", "/etc/passwd"}[pick(5)]
		declared := tensor.Shape{tensor.Unknown, int64(1 + pick(3)), tensor.Unknown}[:1+pick(3)]
		v := &catalog.Version{
			Model: "m", Number: 1, State: catalog.Ready,
			Signature: &tensor.Signature{Inputs: []tensor.Spec{{
				Name: name, DType: dtype, Shape: declared,
				BatchDim: 0,
			}}},
			Batching: catalog.Batching{Batched: true, MaxRequestRows: 4},
		}
		shape := make([]int64, len(declared))
		for i, d := range declared {
			if shape[i] = d; d == tensor.Unknown {
				shape[i] = int64(1 + pick(3))
			}
		}
		field := fmt.Sprintf("inputs[%q]", name)
		count := func() int64 { n, _ := tensor.Shape(shape).Elements(); return n }
		input := &weftv1.Tensor{Dtype: wire.DataType(dtype), Shape: shape}
		fill := func(n int64) {
			if dtype == tensor.String {
				input.StringValues = make([][]byte, n)
				return
			}
			input.Raw = make([]byte, n*int64(dtype.Size()))
		}
		var want, came string
		kind := []string{
			"dtype", "negative", "wrong size", "rank", "rows", "none", "elements", "two", "list",
			"unknown dtype", "huge",
		}[pick(11)]
		switch kind {
		case "dtype":
			other := servertest.Representations[pick(len(servertest.Representations))].DType
			if other == dtype {
				continue
			}
			input.Dtype, want, came = wire.DataType(other), dtype.String(), other.String()
			field += ".dtype"
		case "unknown dtype":
			input.Dtype, want, came = 77, dtype.String(), "77"
			field += ".dtype"
		case "negative":
			for i := range shape {
				shape[i] = -1 - int64(pick(9))
			}
			input.Shape, want, came = shape, declared.String(), literal(shape)
			if declared.Accepts(shape) {
				want = "not negative"
			}
			field += ".shape"
		case "wrong size":
			if len(shape) < 2 {
				continue
			}
			shape[1] = []int64{-4, -1, 0, 9}[pick(4)]
			want, came = declared.String(), literal(shape)
			field += ".shape"
		case "rank":
			shape = slices.Concat(shape, []int64{1})
			input.Shape, want, came = shape, declared.String(), literal(shape)
			field += ".shape"
		case "huge":
			if declared[len(declared)-1] != tensor.Unknown {
				continue
			}
			shape[len(shape)-1] = 1 << 40
			want, came = "2 GiB", literal(shape)
			field += ".shape"
		case "rows":
			shape[0] = []int64{5, 100}[pick(2)]
			fill(count())
			want, came = "row", literal(shape)
			field += ".shape"
		case "none":
			want, came = fmt.Sprintf("%d elements (shape %s)", count(), literal(shape)), "none"
		case "elements":
			n := count() + 1 + int64(pick(3))
			fill(n)
			if dtype == tensor.String {
				want, came = fmt.Sprintf("%d elements (shape %s)", count(), literal(shape)),
					fmt.Sprintf("%d elements", n)
				field += ".string_values"
				break
			}
			size := int64(dtype.Size())
			want, came = fmt.Sprintf("%d bytes (shape %s of %v)", count()*size, literal(shape), dtype),
				fmt.Sprintf("%d bytes", n*size)
			field += ".raw"
		case "two":
			input.Raw, input.BoolValues, input.Int64Values = []byte{1}, []bool{true}, []int64{3}
			want, came = "one representation", "raw and int64_values and bool_values"
		case "list":
			if dtype == tensor.Int64 {
				continue
			}
			input.Int64Values = make([]int64, count())
			want, came = representation.List(), "int64_values"
			field += ".int64_values"
		}
		_, err := newDecoder(v).decode(t.Context(),
			&weftv1.PredictRequest{Inputs: map[string]*weftv1.Tensor{name: input}})
		e, is := errors.AsType[*tensor.FieldError](err)
		if !is || e.Field != field || !strings.Contains(e.Want, want) || !strings.Contains(e.Got, came) {
			t.Fatalf("%s of %v %v: %v\nwant %s: expected ...%s..., got ...%s...", kind, dtype, declared, err, field,
				want, came)
		}
		seen[kind]++
	}
	if len(seen) != 11 {
		t.Errorf("only %v were tried", seen)
	}
}
