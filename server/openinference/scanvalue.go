package openinference

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// members reads an object: of the members with these names, each of which may come once and counts unless it is null,
// the value is read by that function. What others have is passed over.
func (s *scanner) members(names []string, read func(i int) error) error {
	var seen uint64
	return s.object(func(name []byte) error {
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		switch {
		case i < 0 || s.null():
			return s.skip()
		case seen>>i&1 != 0:
			return &tensor.FieldError{Field: names[i], Want: "each member once", Got: "it again"}
		}
		seen |= 1 << i
		return inPart(names[i], read(i))
	})
}

// inPart returns an error of a part of something as one of the whole.
func inPart(field string, err error) error {
	if fault, is := err.(*tensor.FieldError); is && fault.Field != theBody { //nolint:errorlint // as the scanner makes it
		if fault.Field != "" && fault.Field[0] != '[' {
			field += "."
		}
		fault.Field = field + fault.Field
	}
	return err
}

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
	var p parameter
	if err := s.value(&p); err != nil {
		return 0, err
	}
	if !p.natural() {
		return 0, &tensor.FieldError{Want: "a whole number that is not negative", Got: p.String()}
	}
	return p.number, nil
}

// firstName reads an object, and tells the name of its first member, if it has any.
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

// parameters reads a map of parameters. The function counts one of them, and may refuse it.
func (s *scanner) parameters(part func() error) (all []parameter, err error) {
	err = s.object(func(key []byte) error {
		if err := part(); err != nil {
			return err
		}
		p := parameter{key: string(key)}
		switch {
		case find(all, p.key) != nil:
			return &tensor.FieldError{Field: parameterKey(p.key), Want: "each parameter once", Got: "it again"}
		case len(all) == most:
			return &tensor.FieldError{Want: fmt.Sprintf("at most %d parameters", most), Got: "more"}
		}
		if err := s.value(&p); err != nil {
			return inPart(parameterKey(p.key), err)
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// value reads the value of a parameter.
func (s *scanner) value(p *parameter) (err error) {
	kind := s.kind()
	switch kind {
	case '"':
		p.kind = isText
		p.text, err = s.string()
		return err
	case 't', 'f':
		var is bool
		if is, err = s.bool(); is {
			p.number = 1
		}
		p.kind = isBool
		return err
	case aNumber:
	default:
		return s.unlike("a bool, a number or a text")
	}
	digits, err := s.scalar()
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
		p.kind, p.number = isInt64, uint64(n)
	} else if n, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
		p.kind, p.number = isUint64, n
	} else if x, err := strconv.ParseFloat(string(digits), 64); err == nil {
		p.kind, p.number = isDouble, math.Float64bits(x)
	} else {
		return &tensor.FieldError{Want: "a number of 64 bits", Got: routing.Quote(string(digits))}
	}
	return nil
}
