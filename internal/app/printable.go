package app

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// printable writes lines of the log with every character escaped that a terminal or a viewer might act on, such as
// the ones that change the direction of text. Texts of callers are in the log, and the handlers leave some as they are:
// that of text a DEL, that of JSON all but the control characters of ASCII. Outside strings JSON has nothing but ASCII,
// so that the escapes are inside.
type printable struct{ to io.Writer }

// Printable returns a writer that does so with other text, too, such as that of a server that is asked.
func Printable(to io.Writer) io.Writer { return printable{to} }

// Write implements io.Writer, for a whole line.
func (p printable) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, hidden) {
		return p.to.Write(line)
	}
	safe := make([]byte, 0, 2*len(line))
	for _, r := range string(line) {
		switch {
		case !hidden(r):
			safe = append(safe, string(r)...)
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
	return len(line), nil
}

// hidden reports whether a character is not seen as itself.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
