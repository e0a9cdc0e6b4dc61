package predict

import (
	"strings"
	"unicode/utf8"
)

// MaxText bounds, in bytes, how much of a text from outside is repeated, and the text of an error: with gRPC that
// travels twice in one header block, escaped, and some clients refuse more than 8 KiB of those.
const MaxText = 1024

// Clip makes text valid UTF-8, which messages must be, and cuts it to MaxText bytes.
func Clip(text string) string {
	const cut = "..."
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= MaxText {
		return text
	}
	end := MaxText - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
