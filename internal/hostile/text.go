package hostile

import (
	"bytes"
	"math/rand/v2"
	"strings"
)

// stand takes the place of bytes that are not UTF-8 where a library refuses to encode those; Spoil puts them in. Both
// have three bytes, so that lengths before them stay right.
const (
	stand = "\ue000"
	spoil = "\xff\xfe\xc0"
)

// pieces are what strings are made of. Each is known to break some log, page, label, path, template or parser.
var pieces = []string{
	"\n", "\r\n", "\nlevel=INFO msg=forged event=ready\n", `{"event":"ready"}`, "\x00", "\x1b[31m", "\x1b]0;title\a",
	"\x7f", "\u0085", "\u009b31m", "\u2028", "\u2029", stand, "\ufeff",
	"\u202e", "\u2066", "\u200b", "\u200f", "e\u0301", "\U000e0041", "ﷺ", "🦊",
	`"`, `\`, `'`, "`", `"} 1`, `x",model="other`, "{", "}", ",", "=", "#", "%", "%s%n%x", "%!v(PANIC=", "{{.}}",
	"${HOME}", "$(id)", "`id`", "<script>alert(1)</script>", "' OR 1=1 --", "; rm -rf /",
	"../../../../etc/passwd", "/etc/passwd", "..", ".", "/", "//", `C:\Windows`, "file:///etc/passwd", "~root",
	"NaN", "-0", "1e999", "true", "null", "0", "9223372036854775808", " ", "\t", "CON", "__proto__",
}

// Text returns a string that is hard to repeat safely; one in 64 has 64 KiB. It is UTF-8, but may have stand-ins from
// which Spoil makes bytes that are not.
func Text(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(4) {
		if rng.IntN(3) == 0 {
			b.WriteString("ab" + string(rune('a'+rng.IntN(26))))
		}
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	text := b.String()
	// Long texts exceed limits of names, headers and log lines.
	if rng.IntN(64) == 0 {
		text = strings.Repeat(text, (64<<10)/len(text)+1)
	}
	return text
}

// Spoil puts bytes that are not UTF-8 into what was encoded, where texts have a stand-in for them.
func Spoil(encoded []byte) []byte { return bytes.ReplaceAll(encoded, []byte(stand), []byte(spoil)) }

// Mutated returns a copy of data with one to four random changes: a bit flipped, a byte replaced, bytes left out or
// repeated, the end cut off, or a large number put in.
func Mutated(rng *rand.Rand, data []byte) []byte {
	out := bytes.Clone(data)
	for range 1 + rng.IntN(4) {
		if len(out) == 0 {
			return append(out, byte(rng.Uint32()))
		}
		at := rng.IntN(len(out))
		switch rng.IntN(6) {
		case 0:
			out[at] ^= 1 << rng.IntN(8)
		case 1:
			out[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[rng.IntN(5)]
		case 2:
			out = out[:at]
		case 3:
			out = append(out[:at], out[min(len(out), at+1+rng.IntN(4)):]...)
		case 4:
			end := min(len(out), at+1+rng.IntN(8))
			out = append(out[:end:end], out[at:]...)
		case 5: // a number of many bytes, as a length or a size may be
			out = append(append(out[:at:at], 0xff, 0xff, 0xff, 0xff, byte(rng.IntN(128))), out[at:]...)
		}
	}
	return out
}
