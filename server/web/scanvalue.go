package web

import (
	"slices"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// Members reads an object. A member with one of these names may come once, and read reads its value unless that is
// null. Other members are passed over. There may be up to 64 names.
func (s *Scanner) Members(names []string, read func(i int) error) error {
	var seen uint64
	return s.Object(func(name []byte) error {
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		switch {
		// null stands for a member that is not there.
		case i < 0 || s.Null():
			return s.Skip()
		case seen>>i&1 != 0:
			return &tensor.FieldError{Field: names[i], Want: "each member once", Got: "it again"}
		}
		seen |= 1 << i
		return InPart(names[i], read(i))
	})
}

// InPart makes an error of a part of something one of the whole, by putting the part's name before the field: "data"
// and "[3]" make "data[3]". It changes the error itself. Errors of the whole body stay as they are.
func InPart(field string, err error) error {
	if fault, is := err.(*tensor.FieldError); is && fault.Field != TheBody { //nolint:errorlint // as the scanner makes it
		if fault.Field != "" && fault.Field[0] != '[' {
			field += "."
		}
		fault.Field = field + fault.Field
	}
	return err
}

// String reads a text; anything else is refused.
func (s *Scanner) String() (string, error) {
	if s.Kind() != '"' {
		return "", s.Unlike("a text")
	}
	text, err := s.quoted()
	if err != nil {
		return "", err
	}
	return TextOf(text), nil
}

// Bool reads a bool; anything else is refused.
func (s *Scanner) Bool() (bool, error) {
	if k := s.Kind(); k != 't' && k != 'f' {
		return false, s.Unlike("true or false")
	}
	text, err := s.Scalar()
	return string(text) == "true", err
}

// Whole reads a whole number; anything else is refused.
func (s *Scanner) Whole() (int64, error) {
	if s.Kind() != ANumber {
		return 0, s.Unlike("a whole number")
	}
	text, err := s.Scalar()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, &tensor.FieldError{Want: "a whole number of 64 bits", Got: routing.Quote(string(text))}
	}
	return n, nil
}

// FirstName reads an object, and tells the name of its first member, if it has any. It is for what is not supported,
// where a name is needed for the error.
func (s *Scanner) FirstName(is func(string)) error {
	first := true
	return s.Object(func(name []byte) error {
		if first {
			is(string(name))
			first = false
		}
		return s.Skip()
	})
}

// OfBody makes an error of the value that is the whole body name it.
func OfBody(err error) error {
	if fault, is := err.(*tensor.FieldError); is && fault.Field == "" { //nolint:errorlint // as the scanner makes it
		fault.Field = TheBody
	}
	return err
}
