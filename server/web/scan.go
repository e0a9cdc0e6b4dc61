package web

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
)

// Scanner reads a text of JSON from its beginning to its end. Each method reads one thing that is next, and leaves at
// behind it; after an error the scanner is not used any more.
//
// Values stay where they lie: it allocates for the names of members that are escaped, and for errors. encoding/json
// makes an object of each value, or of each token, which takes up to 300 times the bytes of a body, and neither it nor
// other libraries take NaN and Infinity, which Triton writes.
//
// Its errors are *tensor.FieldError: of the text if it is no JSON, else of the part that is not as expected.
type Scanner struct {
	Text []byte
	Turn *protect.Turn // counts the work, so that others get the processor

	at    int    // the place in Text that is read next
	depth int    // of lists and objects that are open there
	name  []byte // of the latest member whose name was escaped; used again for the next
}

// deepest is how many lists and objects may lie within each other. The scanner calls itself for each, and the stack
// must not grow with what a caller sends.
const deepest = 100

// bytesOfStep is how many bytes of a long text or number count as one step of protect.Turn, which is some 20 ns of
// work.
const bytesOfStep = 16

// ANumber stands for the first byte of any number. The first byte tells what a value is.
const ANumber = '0'

// Kind passes over space, and returns what the next value begins with: one of the keys of kinds, or 0 if there is none.
// It does not pass over that byte.
func (s *Scanner) Kind() byte {
	s.Turn.Step(1)
	s.space()
	if s.at == len(s.Text) {
		return 0
	}
	switch c := s.Text[s.at]; {
	case c == '{', c == '[', c == '"', c == 't', c == 'f', c == 'n':
		return c
	case c == '-', c == 'N', c == 'I', isDigit(c):
		return ANumber
	}
	return 0
}

// kinds says in words, for errors, what a value is that begins so.
var kinds = map[byte]string{
	'{': "an object", '[': "a list", '"': "a text", 't': "true", 'f': "false", 'n': "null", ANumber: "a number",
}

// space passes over the space of JSON.
func (s *Scanner) space() {
	for ; s.at < len(s.Text); s.at++ {
		if c := s.Text[s.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
	}
}

// take passes over a byte, if it is next.
func (s *Scanner) take(c byte) bool {
	if s.at == len(s.Text) || s.Text[s.at] != c {
		return false
	}
	s.at++
	return true
}

// word passes over a word, if it is next. The next read finds what may not follow it.
func (s *Scanner) word(w string) bool {
	if !bytes.HasPrefix(s.Text[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// unexpected is the error of a text that is not JSON: it says what is next, and where, and what was expected.
func (s *Scanner) unexpected(want string) error {
	got := "the end of it"
	if s.at < len(s.Text) {
		r, size := utf8.DecodeRune(s.Text[s.at:])
		got = strconv.QuoteRune(r)
		if r == utf8.RuneError && size == 1 {
			got = "a byte that is not UTF-8"
		}
	}
	return Broken("%s at byte %d, where %s was expected", got, s.at, want)
}

// between reads what lies between two brackets, with a comma between any two parts. The first bracket is next, shut is
// the other one, and part reads a part.
func (s *Scanner) between(shut byte, part func() error) error {
	if s.depth++; s.depth > deepest {
		return Broken("more than %d lists or objects within each other", deepest)
	}
	s.at++
	if s.space(); !s.take(shut) {
		for {
			if err := part(); err != nil {
				return err
			}
			if s.space(); s.take(shut) {
				break
			}
			if !s.take(',') {
				return s.unexpected("a comma or " + string(shut))
			}
		}
	}
	s.depth--
	return nil
}

// List reads a list, whose elements are read by that function.
func (s *Scanner) List(element func() error) error {
	if k := s.Kind(); k != '[' {
		return s.Unlike("a list")
	}
	return s.between(']', element)
}

// Object reads an object, whose members are read by that function. It must read the value, and not keep the name: its
// memory is used again.
func (s *Scanner) Object(member func(name []byte) error) error {
	if k := s.Kind(); k != '{' {
		return s.Unlike("an object")
	}
	return s.between('}', func() error {
		if s.Kind() != '"' {
			return s.unexpected("the name of a member")
		}
		name, err := s.quoted()
		if err != nil {
			return err
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			s.name = appendText(s.name[:0], name)
			name = s.name
		}
		if s.space(); !s.take(':') {
			return s.unexpected("a colon")
		}
		return member(name)
	})
}

// Null reports whether the next value is null.
func (s *Scanner) Null() bool { return s.Kind() == 'n' }

// Unlike refuses the next value, which is not what it should be.
func (s *Scanner) Unlike(want string) error {
	got := kinds[s.Kind()]
	if got == "" {
		return s.unexpected(want)
	}
	return &tensor.FieldError{Want: want, Got: got}
}

// Skip passes over a value.
func (s *Scanner) Skip() error {
	switch s.Kind() {
	case '{':
		return s.Object(func([]byte) error { return s.Skip() })
	case '[':
		return s.between(']', s.Skip)
	}
	_, err := s.Scalar()
	return err
}

// Elements reads a list, the lists within it, and so on: their values are read by that function, in their order. How
// the lists are nested is not compared with the shape. A value that is no list is read as if it were alone in one.
func (s *Scanner) Elements(element func() error) error {
	if s.Kind() == '[' {
		return s.between(']', func() error { return s.Elements(element) })
	}
	return element()
}

// Scalar passes over a value that has none within it, and returns it as it stands in the text: of a text what is
// between the quotes, with its escapes.
func (s *Scanner) Scalar() ([]byte, error) {
	kind := s.Kind()
	begin := s.at
	switch {
	case kind == '"':
		return s.quoted()
	case kind == ANumber && s.numeral(),
		kind != ANumber && (s.word("true") || s.word("false") || s.word("null")):
		return s.Text[begin:s.at], nil
	}
	return nil, s.unexpected("a value")
}

// numeral passes over a number of JSON, or over NaN, Infinity and -Infinity, and reports whether there was one.
// strconv, which reads it later, takes more forms, such as 0x1p4 and inf.
func (s *Scanner) numeral() bool {
	if s.word("NaN") {
		return true
	}
	s.take('-')
	switch {
	case s.word("Infinity"):
		return true
	case !s.take('0') && !s.digits():
		return false
	case s.take('.') && !s.digits():
		return false
	}
	if s.take('e') || s.take('E') {
		_ = s.take('+') || s.take('-')
		return s.digits()
	}
	return true
}

// digits passes over digits, and reports whether there was one.
func (s *Scanner) digits() bool {
	begin := s.at
	for s.at < len(s.Text) && isDigit(s.Text[s.at]) {
		s.at++
	}
	s.Turn.Step((s.at - begin) / bytesOfStep)
	return s.at > begin
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// End refuses a text that has anything but space left.
func (s *Scanner) End() error {
	if s.space(); s.at < len(s.Text) {
		return s.unexpected("the end")
	}
	return nil
}

// TheBody is the field of errors that are about no part of a body, which inPart leaves alone.
const TheBody = "the body"

// Broken is the error of a body that cannot be read.
func Broken(format string, args ...any) error {
	return &tensor.FieldError{
		Field: TheBody, Want: "JSON as docs/reference/protocols.md has it", Got: fmt.Sprintf(format, args...),
	}
}
