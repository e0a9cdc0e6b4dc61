package config

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	keys := []string{"mode", "max_batch_size", "max_batch_cost", "weight", "x"}
	for name, want := range map[string]string{
		"maxBatchSize":            "max_batch_size",
		"max-batch-cost":          "max_batch_cost",
		"max_batch":               "", // a part of two
		"batch_size":              "max_batch_size",
		"eig":                     "", // too short to be a part
		"weighs":                  "weight",
		"z":                       "",
		"wieght":                  "weight",
		"Mode":                    "mode",
		"mdoe":                    "mode",
		"name":                    "",
		"y":                       "",
		"":                        "",
		strings.Repeat("m", 9999): "",
	} {
		if got := Nearest(name, keys); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", name, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "acb", 1},
		{"abc", "abd", 1},
		{"abc", "ab", 1},
		{"abc", "xabc", 1},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},
	} {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			if got := editDistance(pair[0], pair[1]); got != tt.want {
				t.Errorf("editDistance(%q, %q) = %d, want %d", pair[0], pair[1], got, tt.want)
			}
		}
	}
}
