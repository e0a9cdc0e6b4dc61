package openinference

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// members reads an object. A member with one of these names may come once, and read reads its value unless that is
// null. Other members are passed over. There may be up to 64 names.
func (s *scanner) members(names []string, read func(i int) error) error {
	var seen uint64
	return s.object(func(name []byte) error {
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		switch {
		// null stands for a member that is not there.
		case i < 0 || s.null():
			return s.skip()
		case seen>>i&1 != 0:
			return &tensor.FieldError{Field: names[i], Want: "each member once", Got: "it again"}
		}
		seen |= 1 << i
		return inPart(names[i], read(i))
	})
}

// inPart makes an error of a part of something one of the whole, by putting the part's name before the field: "data"
// and "[3]" make "data[3]". It changes the error itself. Errors of the whole body stay as they are.
func inPart(field string, err error) error {
	if fault, is := err.(*tensor.FieldError); is && fault.Field != theBody { //nolint:errorlint // as the scanner makes it
		if fault.Field != "" && fault.Field[0] != '[' {
			field += "."
		}
		fault.Field = field + fault.Field
	}
	return err
}

// string reads a text, and bool and whole read a bool and a whole number; anything else is refused.
func (s *scanner) string() (string, error) {
	if s.kind() != '"' {
		return "", s.unlike("a text")
	}
	text, err := s.quoted()
	if err != nil {
		return "", err
	}
	return textOf(text), nil
}

func (s *scanner) bool() (bool, error) {
	if k := s.kind(); k != 't' && k != 'f' {
		return false, s.unlike("true or false")
	}
	text, err := s.scalar()
	return string(text) == "true", err
}

func (s *scanner) whole() (int64, error) {
	if s.kind() != aNumber {
		return 0, s.unlike("a whole number")
	}
	text, err := s.scalar()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, &tensor.FieldError{Want: "a whole number of 64 bits", Got: routing.Quote(string(text))}
	}
	return n, nil
}

// natural reads a whole number that is not negative.
func (s *scanner) natural() (uint64, error) {
	p, err := s.value()
	if err != nil {
		return 0, err
	}
	n, ok := valueOf(p).natural()
	if !ok {
		err = &tensor.FieldError{Want: "a whole number that is not negative", Got: valueOf(p).String()}
	}
	return n, err
}

// firstName reads an object, and tells the name of its first member, if it has any. It is for what is not supported,
// where a name is needed for the error.
func (s *scanner) firstName(is func(string)) error {
	first := true
	return s.object(func(name []byte) error {
		if first {
			is(string(name))
			first = false
		}
		return s.skip()
	})
}

// mostParameters bounds a map of parameters: each takes memory.
const mostParameters = 64

// parameters reads a map of parameters. part counts one of them among those of the whole body, and may refuse it.
func (s *scanner) parameters(part func() error) (map[string]*inference.InferParameter, error) {
	all := map[string]*inference.InferParameter{}
	return all, s.object(func(key []byte) error {
		if err := part(); err != nil {
			return err
		}
		name := string(key)
		switch {
		case all[name] != nil:
			return &tensor.FieldError{Field: parameterKey(name), Want: "each parameter once", Got: "it again"}
		case len(all) == mostParameters:
			return &tensor.FieldError{Want: fmt.Sprintf("at most %d parameters", mostParameters), Got: "more"}
		}
		p, err := s.value()
		all[name] = p
		return inPart(parameterKey(name), err)
	})
}

// value reads the value of a parameter. A whole number is an int64 if it can be one, else a uint64; any other number is
// a float64.
func (s *scanner) value() (*inference.InferParameter, error) {
	switch s.kind() {
	case '"':
		text, err := s.string()
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: text}}, err
	case 't', 'f':
		is, err := s.bool()
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: is}}, err
	case aNumber:
	default:
		return nil, s.unlike("a bool, a number or a text")
	}
	digits, err := s.scalar()
	if err != nil {
		return nil, err
	}
	p := &inference.InferParameter{}
	if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
		p.ParameterChoice = &inference.InferParameter_Int64Param{Int64Param: n}
	} else if n, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
		p.ParameterChoice = &inference.InferParameter_Uint64Param{Uint64Param: n}
	} else if x, err := strconv.ParseFloat(string(digits), 64); err == nil {
		p.ParameterChoice = &inference.InferParameter_DoubleParam{DoubleParam: x}
	} else {
		return nil, &tensor.FieldError{Want: "a number of 64 bits", Got: routing.Quote(string(digits))}
	}
	return p, nil
}
