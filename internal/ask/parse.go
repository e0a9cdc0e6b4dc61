package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// parse returns the tensor that nested lists of JSON stand for.
func parse(spec *weftv1.TensorSpec, text string) (*weftv1.Tensor, error) {
	values := json.NewDecoder(strings.NewReader(text))
	values.UseNumber()
	var value any
	err := values.Decode(&value)
	if err == nil {
		if _, more := values.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no JSON (%w); expected such as %s", cut(text), err, example(spec))
	}
	p := parser{spec: spec, tensor: &weftv1.Tensor{Dtype: spec.GetDtype()}}
	p.shape = slices.Clone(spec.GetShape())
	if err := p.list(value, nil); err != nil {
		return nil, err
	}
	for _, extent := range p.shape {
		p.tensor.Shape = append(p.tensor.Shape, max(extent, 0)) // no list says how long the lists in an empty one are
	}
	return p.tensor, nil
}

// parser makes a tensor of nested lists.
type parser struct {
	spec   *weftv1.TensorSpec
	shape  []int64 // -1 for an open dimension of which no list was seen yet
	tensor *weftv1.Tensor
}

// list reads what is at a place, which counts from 0.
func (p *parser) list(value any, place []int) error {
	list, is := value.([]any)
	depth := len(place)
	if depth == len(p.shape) {
		if is {
			return fmt.Errorf("a list %s; expected %s of %s, whose dimensions are %s", in(place), element(p.spec.GetDtype()),
				dtype(p.spec.GetDtype()), dims(p.spec))
		}
		if !p.element(value) {
			return fmt.Errorf("%s %s; expected %s of %s", show(value), in(place), element(p.spec.GetDtype()),
				dtype(p.spec.GetDtype()))
		}
		return nil
	}
	if !is {
		return fmt.Errorf("%s %s; expected a list: the dimensions are %s, as in %s", show(value), in(place), dims(p.spec),
			example(p.spec))
	}
	if p.shape[depth] < 0 {
		p.shape[depth] = int64(len(list))
	}
	if int64(len(list)) != p.shape[depth] {
		return fmt.Errorf("%d values %s, expected %d", len(list), in(place), p.shape[depth])
	}
	for i, v := range list {
		if err := p.list(v, append(place, i)); err != nil {
			return err
		}
	}
	return nil
}

// in says where a place is, as people count.
func in(place []int) string {
	if len(place) == 0 {
		return "as the value"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "in row %d", place[0]+1)
	for _, i := range place[1:] {
		fmt.Fprintf(&text, ", place %d", i+1)
	}
	return text.String()
}

func element(d weftv1.DataType) string {
	switch d {
	case weftv1.DataType_DATA_TYPE_BOOL:
		return "true or false"
	case weftv1.DataType_DATA_TYPE_STRING:
		return "a text"
	default:
		return "a number"
	}
}

// element adds an element to the tensor, and reports whether its type has it.
func (p *parser) element(value any) bool {
	t, d := p.tensor, p.spec.GetDtype()
	switch v := value.(type) {
	case bool:
		t.BoolValues = append(t.BoolValues, v)
		return d == weftv1.DataType_DATA_TYPE_BOOL
	case json.Number:
		return p.number(v.String())
	case string:
		if d == weftv1.DataType_DATA_TYPE_STRING {
			t.StringValues = append(t.StringValues, []byte(v))
			return true
		}
		// As protobuf has them in JSON, which has no such numbers.
		return floatBits[d] != 0 && slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, v) && p.number(v)
	}
	return false
}

var (
	floatBits = map[weftv1.DataType]int{
		weftv1.DataType_DATA_TYPE_FP16: 32, weftv1.DataType_DATA_TYPE_BF16: 32, // the server rounds
		weftv1.DataType_DATA_TYPE_FP32: 32, weftv1.DataType_DATA_TYPE_FP64: 64,
	}
	// halves are the largest numbers of the types that the server rounds to.
	halves = map[weftv1.DataType]float64{
		weftv1.DataType_DATA_TYPE_FP16: 65504, weftv1.DataType_DATA_TYPE_BF16: 0x1.fep127,
	}
	intBits = map[weftv1.DataType]int{
		weftv1.DataType_DATA_TYPE_INT8: 8, weftv1.DataType_DATA_TYPE_INT16: 16,
		weftv1.DataType_DATA_TYPE_INT32: 32, weftv1.DataType_DATA_TYPE_INT64: 64,
	}
	uintBits = map[weftv1.DataType]int{
		weftv1.DataType_DATA_TYPE_UINT8: 8, weftv1.DataType_DATA_TYPE_UINT16: 16,
		weftv1.DataType_DATA_TYPE_UINT32: 32, weftv1.DataType_DATA_TYPE_UINT64: 64,
	}
)

// number adds a number to the tensor, and reports whether its element type has it.
func (p *parser) number(text string) bool {
	t, d := p.tensor, p.spec.GetDtype()
	if bits := floatBits[d]; bits != 0 {
		v, err := strconv.ParseFloat(text, bits)
		if most := halves[d]; most != 0 && math.Abs(v) > most && !math.IsInf(v, 0) {
			return false
		}
		if bits == 64 {
			t.DoubleValues = append(t.DoubleValues, v)
		} else {
			t.FloatValues = append(t.FloatValues, float32(v))
		}
		return err == nil
	}
	if bits := intBits[d]; bits != 0 {
		v, err := strconv.ParseInt(text, 10, bits)
		if bits == 64 {
			t.Int64Values = append(t.Int64Values, v)
		} else {
			t.Int32Values = append(t.Int32Values, int32(v))
		}
		return err == nil
	}
	if bits := uintBits[d]; bits != 0 {
		v, err := strconv.ParseUint(text, 10, bits)
		if bits == 64 {
			t.Uint64Values = append(t.Uint64Values, v)
		} else {
			t.Uint32Values = append(t.Uint32Values, uint32(v))
		}
		return err == nil
	}
	return false
}

// show returns a value as it was written, or what can be seen of it.
func show(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "a value"
	}
	return cut(strings.TrimSuffix(text.String(), "\n"))
}

// maxShown bounds how much of a value an error or a line repeats, in characters.
const maxShown = 120

func cut(text string) string {
	if shown := []rune(text); len(shown) > maxShown {
		return string(shown[:maxShown]) + " ..."
	}
	return text
}
