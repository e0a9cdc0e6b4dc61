package weftapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
	"github.com/weftserve/weft/server/wire"
)

// TestMessagesAboutBadTensors: of each element type, requests with one wrong tensor are refused by messages that name
// the input, repeat the wrong part as it came, and say what was expected.
func TestMessagesAboutBadTensors(t *testing.T) {
	texts := map[string]string{}
	for i, r := range servertest.Representations {
		dtype, name := r.DType, "a\"b"
		other := servertest.Representations[(i+1)%len(servertest.Representations)].DType
		d := newDecoder(&catalog.Version{
			Model: "m", Number: 1, State: catalog.Ready,
			Signature: &tensor.Signature{Inputs: []tensor.Spec{{
				Name: name, DType: dtype, Shape: tensor.Shape{tensor.Unknown, 2}, BatchDim: 0,
			}}},
			Batching: catalog.Batching{Batched: true, MaxRequestRows: 4},
		})
		fill := func(m *weftv1.Tensor, n int64) {
			if m.Raw = make([]byte, n*int64(dtype.Size())); dtype == tensor.String {
				m.Raw, m.StringValues = nil, make([][]byte, n)
			}
		}
		shape := func(sizes ...int64) func(*weftv1.Tensor) { return func(m *weftv1.Tensor) { m.Shape = sizes } }
		var lines []string
		for kind, change := range map[string]func(*weftv1.Tensor){
			"another type": func(m *weftv1.Tensor) { m.Dtype = wire.DataType(other) },
			"no such type": func(m *weftv1.Tensor) { m.Dtype = 77 },
			"negative":     shape(-1, -2), "another size": shape(1, 9), "another rank": shape(1, 2, 1), "huge": shape(1<<40, 2),
			"rows": func(m *weftv1.Tensor) {
				m.Shape = []int64{5, 2}
				fill(m, 10)
			},
			"no elements":       func(m *weftv1.Tensor) { m.Raw, m.StringValues = nil, nil },
			"too many elements": func(m *weftv1.Tensor) { fill(m, 3) },
			"three lists": func(m *weftv1.Tensor) {
				m.Raw, m.BoolValues, m.Int64Values, m.StringValues = []byte{1}, []bool{true}, []int64{3}, nil
			},
			"another list": func(m *weftv1.Tensor) {
				if m.Raw, m.StringValues = nil, nil; dtype == tensor.Int64 {
					m.BoolValues = make([]bool, 2)
				} else {
					m.Int64Values = make([]int64, 2)
				}
			},
		} {
			m := &weftv1.Tensor{Dtype: wire.DataType(dtype), Shape: []int64{1, 2}}
			fill(m, 2)
			change(m)
			_, err := d.decode(t.Context(), &weftv1.PredictRequest{Inputs: map[string]*weftv1.Tensor{name: m}})
			if _, is := errors.AsType[*tensor.FieldError](err); !is {
				t.Errorf("%v, %s: %v", dtype, kind, err)
			}
			lines = append(lines, fmt.Sprint(kind, ": ", err))
		}
		slices.Sort(lines)
		texts[dtype.String()] = strings.Join(lines, "\n")
	}
	script.Compare(t, "testdata/badtensors.txt", texts)
}
