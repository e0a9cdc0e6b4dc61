package web

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted passes over a text, whose first quote is next, and returns what is between the quotes. It checks the escapes
// and the UTF-8, so that appendText need not.
func (s *Scanner) quoted() ([]byte, error) {
	s.at++
	ascii := true // then the text need not be checked for UTF-8
	for begin := s.at; s.at < len(s.Text); s.at++ {
		switch c := s.Text[s.at]; {
		case c == '"':
			text := s.Text[begin:s.at]
			if s.Turn.Step(len(text) / bytesOfStep); !ascii && !utf8.Valid(text) {
				return nil, Broken("a text that is not UTF-8 at byte %d", begin)
			}
			s.at++
			return text, nil
		case c >= utf8.RuneSelf:
			ascii = false
		case c < ' ':
			return nil, s.unexpected("a text without control characters")
		case c == '\\':
			if s.at++; s.at == len(s.Text) || !s.escape() {
				return nil, s.unexpected("an escape of JSON")
			}
		}
	}
	return nil, s.unexpected("the end of a text")
}

// escape passes over all but the last byte of what follows a backslash, and reports whether it is an escape of JSON.
// The loop of quoted passes over that last byte.
func (s *Scanner) escape() bool {
	if s.Text[s.at] != 'u' {
		return bytes.IndexByte([]byte(`"\/bfnrt`), s.Text[s.at]) >= 0
	}
	for range 4 {
		if s.at++; s.at == len(s.Text) || !isHex(s.Text[s.at]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// TextOf returns a text of JSON, which is between its quotes.
func TextOf(quoted []byte) string { return string(appendText(nil, quoted)) }

// appendText appends a text of JSON, which is between its quotes and sound (quoted), without its escapes. Of surrogates
// that are no pair it makes U+FFFD, as encoding/json does.
func appendText(to, quoted []byte) []byte {
	for {
		i := bytes.IndexByte(quoted, '\\')
		if i < 0 {
			return append(to, quoted...)
		}
		to, quoted = append(to, quoted[:i]...), quoted[i+1:]
		c := quoted[0]
		quoted = quoted[1:]
		switch c {
		case 'u':
			r := hexRune(quoted)
			quoted = quoted[4:]
			if utf16.IsSurrogate(r) {
				pair := utf8.RuneError
				// The other half of the pair is an escape of six bytes, \uXXXX.
				if len(quoted) >= 6 && quoted[0] == '\\' && quoted[1] == 'u' {
					pair = utf16.DecodeRune(r, hexRune(quoted[2:]))
				}
				if r = pair; pair != utf8.RuneError {
					quoted = quoted[6:]
				}
			}
			to = utf8.AppendRune(to, r)
		case 'b', 'f', 'n', 'r', 't':
			to = append(to, "\b\f\n\r\t"[bytes.IndexByte([]byte("bfnrt"), c)])
		default:
			to = append(to, c)
		}
	}
}

// hexRune returns the number of an escape, from its four digits.
func hexRune(four []byte) rune {
	n, _ := strconv.ParseUint(string(four[:4]), 16, 16) // the scanner has seen to it
	return rune(n)
}
