package routing

import (
	"strconv"
	"unicode/utf8"
)

// maxQuoted is how many bytes of a foreign name an error message repeats.
const maxQuoted = 64

// Quote makes a name that came with a request fit for messages and logs: in double quotes, everything but printable
// ASCII escaped (so that look-alikes can be told apart and nothing can forge a line), and cut after 64 bytes of the
// result with the full length appended.
func Quote(name string) string {
	out, used := make([]byte, 0, maxQuoted+2), 0
	out = append(out, '"')
	for used < len(name) {
		_, size := utf8.DecodeRuneInString(name[used:])
		escaped := strconv.QuoteToASCII(name[used : used+size])
		escaped = escaped[1 : len(escaped)-1]
		if len(out)-1+len(escaped) > maxQuoted {
			break
		}
		out = append(out, escaped...)
		used += size
	}
	out = append(out, '"')
	if used < len(name) {
		out = append(out, "... ("...)
		out = strconv.AppendInt(out, int64(len(name)), 10)
		out = append(out, " bytes)"...)
	}
	return string(out)
}
