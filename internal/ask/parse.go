package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/wire"
)

// parse returns the tensor of an input that is written as nested lists of JSON. Numbers stay text until their type is
// known, so that an int64 loses no digits.
func parse(spec *weftv1.TensorSpec, text string) (*weftv1.Tensor, error) {
	values := json.NewDecoder(strings.NewReader(text))
	values.UseNumber()
	var value any
	// One value, and nothing behind it: a forgotten bracket would otherwise cut off the rest without a word.
	err := values.Decode(&value)
	if err == nil {
		if _, more := values.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no JSON (%w); expected such as %s", cut(text), err, example(spec))
	}
	p := parser{spec: spec, shape: slices.Clone(spec.GetShape()), dtype: wire.DType(spec.GetDtype())}
	if err := p.list(value, nil); err != nil {
		return nil, err
	}
	for i, extent := range p.shape {
		p.shape[i] = max(extent, 0) // no list says how long the lists in an empty one are
	}
	return wire.Encode(tensor.Tensor{DType: p.dtype, Shape: p.shape, Data: p.data}, true), nil
}

// parser makes a tensor of nested lists. data has the elements that were read, in the encoding of their type.
type parser struct {
	spec  *weftv1.TensorSpec
	dtype tensor.DType
	shape tensor.Shape // -1 for an open dimension that no list was seen for yet
	data  []byte
}

// list reads the value at a place, which is the indices of the lists around it, from 0. The first list along an open
// dimension decides the length of all lists along it; fixed dimensions are known before.
func (p *parser) list(value any, place []int) error {
	list, is := value.([]any)
	depth := len(place)
	// All dimensions are used up: what stands here is an element.
	if depth == len(p.shape) {
		if is {
			return fmt.Errorf("a list %s; expected %s, whose dimensions are %s", in(place), p.elements(), dims(p.spec))
		}
		if !p.element(value) {
			return fmt.Errorf("%s %s; expected %s", show(value), in(place), p.elements())
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
		// append may reuse the memory of a neighbour's place, which is not needed any more.
		if err := p.list(v, append(place, i)); err != nil {
			return err
		}
	}
	return nil
}

// in says where a place is, counted from 1 as people do.
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

// elements says what the elements are, such as "a number of fp32".
func (p *parser) elements() string {
	what := "a number"
	switch p.dtype {
	case tensor.Bool:
		what = "true or false"
	case tensor.String:
		what = "a text"
	default:
	}
	return what + " of " + dtype(p.spec.GetDtype())
}

// element adds an element to the tensor, and reports whether it is one of its type. After false the tensor is of no
// use.
func (p *parser) element(value any) bool {
	var text string
	is := false
	switch v := value.(type) {
	case bool:
		text, is = strconv.FormatBool(v), p.dtype == tensor.Bool
	case json.Number:
		text, is = v.String(), p.dtype != tensor.Bool && p.dtype != tensor.String
	case string:
		// Floats as protobuf has them in JSON, which has no such numbers.
		text, is = v, p.dtype == tensor.String ||
			p.dtype.IsFloat() && slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, v)
	}
	// A number that does not fit its type, such as 300 for an int8, is an error too.
	data, err := tensor.ParseElement(p.dtype, text)
	p.data = append(p.data, data...)
	return is && err == nil
}

// show returns a value as JSON, cut if it is long.
func show(value any) string {
	var text strings.Builder
	if err := encode(&text, value); err != nil {
		return "a value"
	}
	return cut(strings.TrimSuffix(text.String(), "\n"))
}

// maxShown bounds how much of a value an error or a line repeats, in characters.
const maxShown = 120

// cut returns a text, or its beginning if it is long.
func cut(text string) string {
	if shown := []rune(text); len(shown) > maxShown {
		return string(shown[:maxShown]) + " ..."
	}
	return text
}
