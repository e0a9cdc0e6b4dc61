package pbtxt

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scanner notes where fields stand in a text. prototext has read the text before, so that the scanner looks for no
// mistakes; it only must end, whatever it reads.
type scanner struct {
	text         string // what is left
	line, column int
	places       map[string]place
	last         string // the latest scalar, without its quotes
}

// message reads fields up to the end of the text, or of the message at path. After an entry of a map, last is its key.
func (s *scanner) message(path string, of protoreflect.MessageDescriptor) {
	count := map[string]int{}
	key := ""
	for s.space(); s.text != "" && !strings.ContainsRune("}>]", rune(s.text[0])); s.space() {
		at := place{s.line, s.column}
		name := s.word()
		field := of.Fields().ByTextName(name)
		if field == nil { // what prototext has no objection to, this does not know
			s.skip(1)
			continue
		}
		full := name
		if path != "" {
			full = path + "." + name
		}
		if _, ok := s.places[full]; !ok {
			s.places[full] = at
		}
		if s.space(); s.is(":") {
			s.skip(1)
		}
		if s.space(); !s.is("[") {
			s.value(full, at, field, count)
		} else {
			s.skip(1)
			for s.space(); s.text != "" && !s.is("]"); s.space() {
				s.value(full, place{}, field, count)
			}
			s.skip(1)
		}
		if of.IsMapEntry() && name == "key" {
			key = s.last
		}
	}
	if of.IsMapEntry() {
		s.last = key
	}
}

// value reads one value of a field. at is where it begins; the zero value says that it begins here. count numbers the
// messages of repeated fields, which get places of their own; scalars in lists do not.
func (s *scanner) value(full string, at place, field protoreflect.FieldDescriptor, count map[string]int) {
	s.space()
	if at == (place{}) {
		at = place{s.line, s.column}
	}
	if field.Message() == nil {
		s.scalar()
		return
	}
	if field.Cardinality() == protoreflect.Repeated {
		n := count[full]
		count[full]++
		indexed := fmt.Sprintf("%s[%d]", full, n)
		s.places[indexed] = at
		s.braces(indexed, field)
		if field.IsMap() {
			s.places[full+"["+s.last+"]"] = at
		}
		return
	}
	s.braces(full, field)
}

// braces reads a message in braces or angle brackets.
func (s *scanner) braces(path string, field protoreflect.FieldDescriptor) {
	s.skip(1)
	s.message(path, field.Message())
	s.skip(1)
}

// scalar reads a number, a name, or strings, which may follow each other and are then joined. Escapes are not decoded:
// last only serves as the key of a map.
func (s *scanner) scalar() {
	s.last = ""
	if !s.is(`"`) && !s.is("'") {
		if s.is("-") {
			s.skip(1)
			s.space()
		}
		if s.last = s.word(); s.last == "" {
			s.skip(1)
		}
		return
	}
	for s.is(`"`) || s.is("'") {
		quote := s.text[:1]
		s.skip(1)
		for s.text != "" && !s.is(quote) {
			if s.is(`\`) {
				s.skip(1)
			}
			s.last += s.text[:min(1, len(s.text))]
			s.skip(1)
		}
		s.skip(1)
		s.space()
	}
}

// word reads a name or a number; "" if neither is next. A sign belongs to a number only in an exponent.
func (s *scanner) word() string {
	n := 0
	for n < len(s.text) && (isLetter(s.text[n]) || n > 0 && strings.IndexByte("+-", s.text[n]) >= 0 &&
		strings.IndexByte("eE", s.text[n-1]) >= 0) {
		n++
	}
	word := s.text[:n]
	s.skip(n)
	return word
}

// isLetter reports whether a byte may be in a name or a number.
func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.'
}

// space reads white space, comments, and separators between fields.
func (s *scanner) space() {
	for s.text != "" {
		switch s.text[0] {
		case '#':
			end := strings.IndexByte(s.text, '\n')
			if end < 0 {
				end = len(s.text)
			}
			s.skip(end)
		case ' ', '\t', '\r', '\n', ',', ';':
			s.skip(1)
		default:
			return
		}
	}
}

func (s *scanner) is(next string) bool { return strings.HasPrefix(s.text, next) }

// skip reads so many bytes, or what is left, and keeps count of lines and columns.
func (s *scanner) skip(n int) {
	for ; n > 0 && s.text != ""; n-- {
		c := s.text[0]
		s.text = s.text[1:]
		switch {
		case c == '\n':
			s.line, s.column = s.line+1, 1
		case c&0xc0 != 0x80: // bytes of one character count once
			s.column++
		}
	}
}
