package config_test

import (
	"testing"

	"github.com/weftserve/weft/internal/config"
)

type padded struct {
	Pad  config.Scalar            `yaml:"pad"`
	Pads map[string]config.Scalar `yaml:"pads"`
}

// TestScalarIsReadBackAsItWasPrinted has texts that YAML takes for something else, or splits, unless they are quoted.
func TestScalarIsReadBackAsItWasPrinted(t *testing.T) {
	for _, text := range []config.Scalar{
		"", "0", "-1", "+7", "010", "0x1f", "1_000", "1e9", "-1E-3", "0.50", "1.", ".5", "true", "True", "yes", "null",
		"~", ".inf", "-.inf", ".nan",
		"[PAD]", "<pad>", "{x}", " a b ", "a: b", "- x", "# no comment", "'", `"`, `\`, "a\nb", "\n", "\t", "&a", "*a",
		"!a", "%a", "@a", "`", "é", "2026-01-01", "\a\x01", "\u2028", "\U0001F600",
	} {
		in := padded{Pad: text, Pads: map[string]config.Scalar{"x": text}}
		printed, err := config.Print(in)
		if err != nil {
			t.Fatal(err)
		}
		var out padded
		if err := config.Decode("printed", []byte(printed), &out); err != nil {
			t.Errorf("%q: %v\nin\n%s", text, err, printed)
			continue
		}
		if out.Pad != text || out.Pads["x"] != text {
			t.Errorf("%q was read back as %q and %q from\n%s", text, out.Pad, out.Pads["x"], printed)
		}
	}
}

// TestScalarPrintsNumbersPlainly: quotes would make a reader wonder.
func TestScalarPrintsNumbersPlainly(t *testing.T) {
	for _, text := range []string{"0", "-1.5", "1e9", "true"} {
		printed, err := config.Print(padded{Pad: config.Scalar(text)})
		if err != nil {
			t.Fatal(err)
		}
		if want := "pad: " + text + "\npads: {}\n"; printed != want {
			t.Errorf("got %q, want %q", printed, want)
		}
	}
}

// TestScalarTakesSingleValuesOnly has lists and mappings refused.
func TestScalarTakesSingleValuesOnly(t *testing.T) {
	for source, want := range map[string]string{
		"pad: [0]":    "f:1:1: pad: expected a single value, found a list\n    1 | pad: [0]\n      | ^",
		"pad: {a: 0}": "f:1:1: pad: expected a single value, found a mapping\n    1 | pad: {a: 0}\n      | ^",
		"pad:": "f:1:1: pad: expected a value (remove the key to keep the default), found nothing\n    1 | " +
			"pad:\n      | ^",
	} {
		var out padded
		if err := config.Decode("f", []byte(source), &out); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", source, err, want)
		}
	}
}
