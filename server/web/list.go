package web

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
)

var little = binary.LittleEndian

// List is the elements of an input as they came in JSON.
type List struct {
	Text  []byte // a part of the body; nil: the input has no data
	Count int    // of elements, in all lists together
	*Nest        // nil: it was only counted
}

// Nest is how the elements of an input lie in lists.
type Nest struct {
	Shape tensor.Shape
	// Member is the input's name where the text is a list of objects, each with a member for each input; "": it is the
	// elements of this input alone.
	Member string

	leaf  int     // how deep the elements lie, plus one; 0: none came yet
	bytes int     // of the text of all elements
	at    []int32 // where the values of Member begin in Text, of a list of objects
}

// Count passes over the elements of an input, and counts them. What they are is not looked at: that needs the model's
// type. How the lists are nested is not either.
func (s *Scanner) Count() (l List, err error) {
	s.Kind()
	begin := s.at
	err = s.Elements(func() error {
		if s.Kind() == '{' {
			return s.Unlike("a list of elements, or of lists")
		}
		_, err := s.Scalar()
		l.Count++
		return err
	})
	l.Text = s.Text[begin:s.at]
	return l, err
}

// Most is how many bytes the elements take at most as a tensor of whatever type.
func (l *List) Most() int { return max(l.Bytes(tensor.Float64), l.Bytes(tensor.String)) }

// Nested passes over the elements of an input, and finds its shape: lists at one depth must be equally long. An object
// of the one member "b64" is an element.
func (s *Scanner) Nested() (l List, err error) {
	s.Kind()
	begin := s.at
	l.Nest = &Nest{}
	err = s.nested(&l, 0)
	l.Text = s.Text[begin:s.at]
	return l, err
}

func (s *Scanner) nested(l *List, depth int) error {
	if s.Kind() != '[' {
		l.Count++
		begin := s.at
		switch {
		case l.leaf == 0 && depth < len(l.Shape), l.leaf > 0 && l.leaf != depth+1:
			return &tensor.FieldError{Want: "elements that all lie equally deep in lists", Got: "one beside a list"}
		case s.base64():
		default:
			if _, err := s.Scalar(); err != nil {
				return err
			}
		}
		l.leaf = depth + 1
		l.bytes += s.at - begin
		return nil
	}
	if l.leaf > 0 && depth+1 >= l.leaf {
		return &tensor.FieldError{Want: "elements that all lie equally deep in lists", Got: "a list beside one"}
	}
	if depth == len(l.Shape) {
		l.Shape = append(l.Shape, tensor.Unknown)
	}
	n := int64(0)
	if err := s.between(']', func() error {
		n++
		return s.nested(l, depth+1)
	}); err != nil {
		return err
	}
	if before := l.Shape[depth]; before != tensor.Unknown && before != n {
		return &tensor.FieldError{
			Want: fmt.Sprintf("lists of one length at each depth, as before of %d", before), Got: fmt.Sprintf("one of %d", n),
		}
	}
	l.Shape[depth] = n
	return nil
}

// base64 passes over an object of the one member "b64", a text, if it is next.
func (s *Scanner) base64() bool {
	if s.Kind() != '{' {
		return false
	}
	begin := s.at
	s.at++
	ok := s.Kind() == '"' && s.word(`"b64"`)
	s.space()
	if ok = ok && s.take(':') && s.Kind() == '"'; ok {
		_, err := s.quoted()
		s.space()
		ok = err == nil && s.take('}')
	}
	if !ok {
		s.at = begin
	}
	return ok
}

// IsObject reports whether an object is next that is no element.
func (s *Scanner) IsObject() bool {
	at := s.at
	defer func() { s.at = at }()
	return s.Kind() == '{' && !s.base64()
}

// IsListOfObjects reports whether a list is next that begins with an object that is no element.
func (s *Scanner) IsListOfObjects() bool {
	at := s.at
	defer func() { s.at = at }()
	return s.Kind() == '[' && s.take('[') && s.IsObject()
}

// IsEmptyList reports whether a list without elements is next.
func (s *Scanner) IsEmptyList() bool {
	at := s.at
	defer func() { s.at = at }()
	if s.Kind() != '[' {
		return false
	}
	s.at++
	s.space()
	return s.take(']')
}

// CheckSize refuses elements that take more as a tensor of that type than a message may have. The error is a
// *tensor.FieldError.
func (l *List) CheckSize(dtype tensor.DType, most int) error {
	if size := l.Bytes(dtype); size > most {
		return &tensor.FieldError{
			Want: fmt.Sprintf("at most %d bytes as a tensor (--max-message-bytes)", most), Got: fmt.Sprintf("%d bytes", size),
		}
	}
	return nil
}

// Objects passes over a list of objects, and finds the inputs that are members of each. Their number is bounded by
// most. The list is not empty, and begins with an object.
func (s *Scanner) Objects(most int) ([]List, error) {
	var all []List
	index := map[string]int{}
	rows := 0
	s.Kind()
	begin := s.at
	err := s.List(func() error {
		came := 0
		err := s.Object(func(name []byte) error {
			i, known := index[string(name)]
			switch {
			case !known && rows > 0:
				return &tensor.FieldError{Want: "the members of the first object", Got: "also " + routing.Quote(string(name))}
			case !known && len(all) == most:
				return Broken("more than %d inputs, which is very many", most)
			case !known:
				i = len(all)
				index[string(name)] = i
				all = append(all, List{Nest: &Nest{Member: string(name), Shape: tensor.Shape{tensor.Unknown}}})
			case len(all[i].at) > rows:
				return inMember(string(name), &tensor.FieldError{Want: "each member once", Got: "it again"})
			}
			came++
			s.Kind()
			all[i].at = append(all[i].at, int32(s.at-begin))
			return inMember(all[i].Member, s.nested(&all[i], 1))
		})
		if err == nil && came < len(all) {
			err = &tensor.FieldError{
				Want: fmt.Sprintf("the %d members of the first object", len(all)), Got: fmt.Sprintf("%d of them", came),
			}
		}
		if err != nil {
			err = InPart(fmt.Sprintf("[%d]", rows), err)
		}
		rows++
		return err
	})
	for i := range all {
		all[i].Text, all[i].Shape[0] = s.Text[begin:s.at], int64(rows)
	}
	return all, err
}

// inMember names the member of an object in an error, if there is one.
func inMember(name string, err error) error {
	if err != nil {
		err = InPart("["+routing.Quote(name)+"]", err)
	}
	return err
}

// Bytes is how many bytes the elements take at most as a tensor of that type. A body has at least two bytes for each
// element, so that is at most four times the bytes of the list.
func (l *List) Bytes(dtype tensor.DType) int {
	switch {
	case dtype == tensor.String && l.Nest != nil:
		return l.bytes + 4*l.Count // the length of each is four bytes
	case dtype == tensor.String:
		return len(l.Text) + l.Count + 1 // four bytes more for each, and two quotes and a comma less
	}
	return l.Count * dtype.Size()
}

// Decode fills a tensor, whose type and shape are known and may be, with the elements. They lie in memory that the
// caller gives back, also where there is an error; nil: there is none. The error is a *tensor.FieldError that names an
// element by its index among all, and the type as the protocol calls it.
func (l *List) Decode(t *tensor.Tensor, memory tensor.Memory, called string) (*[]byte, error) {
	if count, _ := t.Shape.Elements(); int64(l.Count) != count {
		return nil, &tensor.FieldError{
			Want: fmt.Sprintf("%d elements (shape %v of %v)", count, t.Shape, t.DType),
			Got:  fmt.Sprintf("%d elements", l.Count),
		}
	}
	var turn protect.Turn
	defer turn.End()
	if len(l.Text) > SmallBody {
		turn.Begin()
	}
	data := memory.Get(l.Bytes(t.DType)) // enough, so that appending does not move it
	var err error
	*data, err = l.appendTo((*data)[:0], t.DType, called, &turn)
	t.Data = *data
	return data, err
}

// appendTo appends the elements, which are sound JSON.
func (l *List) appendTo(raw []byte, dtype tensor.DType, called string, turn *protect.Turn) ([]byte, error) {
	s, n := Scanner{Text: l.Text, Turn: turn}, 0
	element := func() error {
		kind := s.Kind()
		begin := s.at
		if kind == '{' {
			if !s.base64() {
				return s.Unlike("an element")
			}
			var ok bool
			if raw, ok = appendBase64(raw, dtype, s.Text[begin:s.at]); !ok {
				return &tensor.FieldError{
					Field: fmt.Sprintf("[%d]", n), Want: "an element of " + called, Got: `{"b64": ...}, which is for texts, of bytes in base64`,
				}
			}
			n++
			return nil
		}
		text, err := s.Scalar()
		if err != nil {
			return err
		}
		var ok bool
		if raw, ok = appendElement(raw, dtype, kind, text); !ok {
			// The error repeats a number or a text as it came.
			got := kinds[kind]
			switch kind {
			case ANumber:
				got += " " + routing.Quote(string(text))
			case '"':
				got += " " + routing.Quote(TextOf(text))
			}
			return &tensor.FieldError{Field: fmt.Sprintf("[%d]", n), Want: "an element of " + called, Got: got}
		}
		n++
		return nil
	}
	if l.Nest == nil || l.Member == "" {
		err := s.Elements(element)
		return raw, err
	}
	for _, at := range l.at {
		s.at = int(at)
		if err := s.Elements(element); err != nil {
			return raw, err
		}
	}
	return raw, nil
}

// appendBase64 appends a text of bytes, which came as an object of the member "b64", with or without padding.
func appendBase64(raw []byte, dtype tensor.DType, object []byte) ([]byte, bool) {
	var in struct {
		Text string `json:"b64"`
	}
	if dtype != tensor.String || json.Unmarshal(object, &in) != nil {
		return raw, false
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(in.Text, "="))
	return tensor.AppendString(raw, data), err == nil
}

// appendElement appends an element, and reports whether the type has it. kind is what Scanner.Kind said of the element,
// and text what Scalar returned.
func appendElement(raw []byte, dtype tensor.DType, kind byte, text []byte) ([]byte, bool) {
	switch {
	case kind == ANumber:
		return appendNumber(raw, dtype, text)
	case dtype == tensor.String && kind == '"':
		begin := len(raw)
		raw = appendText(append(raw, 0, 0, 0, 0), text) // the length, which is known afterwards
		little.PutUint32(raw[begin:], uint32(len(raw)-begin-4))
		return raw, true
	case dtype == tensor.Bool && kind == 't':
		return append(raw, 1), true
	}
	return append(raw, 0), dtype == tensor.Bool && kind == 'f'
}

// appendNumber appends a number of JSON as an element, and reports whether the type can hold it. Whole numbers must be
// written as such: 1.0 is none. 0 and 1 are bools, too.
func appendNumber(raw []byte, dtype tensor.DType, text []byte) ([]byte, bool) {
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsFloat():
		x, err := strconv.ParseFloat(string(text), max(32, bits))
		half := tensor.Float16Bits(float32(x))
		// A number that is too large for a half would become infinity: it is refused, unless it is infinity.
		fits := func(to float64) bool { return err == nil && math.IsInf(to, 0) == math.IsInf(x, 0) }
		switch dtype {
		case tensor.Float16:
			return little.AppendUint16(raw, half), fits(float64(tensor.Float16Value(half)))
		case tensor.BFloat16:
			half = tensor.BFloat16Bits(float32(x))
			return little.AppendUint16(raw, half), fits(float64(tensor.BFloat16Value(half)))
		case tensor.Float32:
			return little.AppendUint32(raw, math.Float32bits(float32(x))), err == nil
		default:
			return little.AppendUint64(raw, math.Float64bits(x)), err == nil
		}
	case IsSigned(dtype):
		n, err := strconv.ParseInt(string(text), 10, bits)
		return appendInteger(raw, bits, uint64(n)), err == nil
	case dtype >= tensor.Uint8 && dtype <= tensor.Uint64:
		n, err := strconv.ParseUint(string(text), 10, bits)
		return appendInteger(raw, bits, n), err == nil
	case dtype == tensor.Bool && len(text) == 1 && text[0] <= '1':
		return append(raw, text[0]-'0'), true
	}
	return raw, false
}

// appendInteger appends the lowest bits of a number, in little endian.
func appendInteger(raw []byte, bits int, n uint64) []byte {
	for ; bits > 0; bits -= 8 {
		raw, n = append(raw, byte(n)), n>>8
	}
	return raw
}
