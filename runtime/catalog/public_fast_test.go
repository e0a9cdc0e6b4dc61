package catalog

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPublicTextIsThorough: texts that no expression is tried on have nothing that one would match.
func TestPublicTextIsThorough(t *testing.T) {
	pieces := []string{
		"/", "/home/ann/m.onnx", "/tmp", "a/b", "é/tmp/x", " ", "core.cc:12 ", "x/y.hpp:3: ", ".cuh:1", "; file=x", ";line=3",
		"hostname=a", "~", "-", "_/tmp/y", "word", "\"", "(", ":", ".", ".h", "9/tmp", "\n/etc/passwd",
	}
	for seed := range uint64(20_000) {
		draw := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for range 1 + draw.IntN(6) {
			b.WriteString(pieces[draw.IntN(len(pieces))])
		}
		text := b.String()
		all := sourceWords.ReplaceAllString(sourceLine.ReplaceAllString(text, ""), "")
		if !strings.Contains(text, "/") && !strings.Contains(text, ";") {
			all = text
		}
		if got := PublicText(text); got == text && (all != text || machinePath().MatchString(text)) {
			t.Fatalf("seed %d: %q stays as it is", seed, text)
		}
	}
}
