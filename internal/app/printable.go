package app

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// printable escapes every character in lines of the log that a terminal or a viewer might act on, such as the ones that
// change the direction of text. The log has texts of callers, and slog's handlers leave some characters as they are:
// the text handler DEL, the JSON handler all but the control characters of ASCII. The escapes are those of JSON.
// Outside of its strings JSON has only ASCII, so that every escape is inside one.
type printable struct{ to io.Writer }

// Printable returns a writer that escapes such characters in other text, too, such as what a server answers.
func Printable(to io.Writer) io.Writer { return printable{to} }

// Write implements io.Writer. It needs a whole line: half of a character would be taken for a faulty one. Lines without
// such characters, which are nearly all, are passed on without a copy.
func (p printable) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, hidden) {
		return p.to.Write(line)
	}
	safe := make([]byte, 0, 2*len(line))
	for _, r := range string(line) {
		switch {
		case !hidden(r):
			safe = append(safe, string(r)...)
		// JSON has escapes of 16 bits only.
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		default:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		}
	}
	if _, err := p.to.Write(safe); err != nil {
		return 0, err
	}
	// An io.Writer tells how much of what it was given it has written, escaped or not.
	return len(line), nil
}

// hidden reports whether a character is escaped. Of white space only the plain space and the end of the line are not.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
