package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
)

func TestSetNumbers(t *testing.T) {
	for name, tt := range map[string]struct {
		before  string
		numbers map[string]int64
		after   string
	}{
		"empty":        {"", map[string]int64{"a": 1}, "v:\n  l: {a: 1}\n"},
		"comments":     {"# only this\n\n# and this", map[string]int64{"b": 2, "a": 1}, "# only this\n\n# and this\nv:\n  l: {a: 1, b: 2}\n"},
		"other keys":   {"---\nw: 2 # two\n", map[string]int64{"a": 1}, "---\nw: 2 # two\nv:\n  l: {a: 1}\n"},
		"all in one":   {"{w: 2}\n", map[string]int64{"a": 1}, "{v: {l: {a: 1}}, w: 2}\n"},
		"nothing":      {"{}", map[string]int64{"a": 1}, "{v: {l: {a: 1}}}\n"},
		"no key":       {"v:  # which\n   # the policy\n   p: all\nw: 2\n", map[string]int64{"a": 1}, "v:  # which\n   l: {a: 1}\n   # the policy\n   p: all\nw: 2\n"},
		"no key, flow": {"v: {p: all} # x\n", map[string]int64{"a": 1}, "v: {l: {a: 1}, p: all} # x\n"},
		"empty flow":   {"v: {}\n", map[string]int64{"a": 1}, "v: {l: {a: 1}}\n"},
		"no numbers":   {"v: {l: {}}\n", map[string]int64{"a": 1}, "v: {l: {a: 1}}\n"},
		"flow":         {"v: {l: {é: 1, b: 2, c: 3}, p: all} # x\n", map[string]int64{"c": 30, "b": 20, "a": 10}, "v: {l: {b: 20, c: 30, a: 10}, p: all} # x\n"},
		"same names":   {"v: {l: { b: 1,  # first\n  a: 2 # second\n}}\n", map[string]int64{"a": 22, "b": 11}, "v: {l: { b: 11,  # first\n  a: 22 # second\n}}\n"},
		"flow, lines":  {"v: {l: {a: 1,\n  b: 2\n }}\n", map[string]int64{"a": 3}, "v: {l: {a: 3}}\n"},
		"lines": {
			"# top\nv:\n  l: # names\n    # the good one\n    stable: 1 # since May\n    old: 7 # goes\n    \"can ary\": 22\n\n  # of all\n  p: all\nw: 2\n",
			map[string]int64{"stable": 10, "can ary": 23, "next": 4, "null": 5},
			"# top\nv:\n  l: # names\n    # the good one\n    stable: 10 # since May\n    \"can ary\": 23\n    next: 4\n    \"null\": 5\n\n  # of all\n  p: all\nw: 2\n",
		},
		"last line":        {"v:\n  l:\n    a: 1", map[string]int64{"a": 2, "b": 3}, "v:\n  l:\n    a: 2\n    b: 3\n"},
		"all others":       {"v:\n  l:\n    a: 1\n    b: 2\n", map[string]int64{"c": 3}, "v:\n  l:\n    c: 3\n"},
		"none":             {"v:\n  l: # names\n    a: 1\n  p: all\n", nil, "v:\n  l: {} # names\n  p: all\n"},
		"none, flow":       {"v: {l: {a: 1}}\n", nil, "v: {l: {}}\n"},
		"none anyway":      {"w: 2\n", nil, "w: 2\n"},
		"an empty mapping": {"v: {l: {}}", nil, "v: {l: {}}"},
		"unchanged":        {"v:\n  l: {b: 1,   a: 2}", map[string]int64{"a": 2, "b": 1}, "v:\n  l: {b: 1,   a: 2}"},
		"carriages":        {"v:\r\n  l:\r\n    a: 1\r\nw: 2\r\n", map[string]int64{"a": 2, "b": 3}, "v:\r\n  l:\r\n    a: 2\r\n    b: 3\r\nw: 2\r\n"},
		"byte order":       {"\ufeffw: 2\n", map[string]int64{"a": 1}, "\ufeffw: 2\nv:\n  l: {a: 1}\n"},
		"names of types":   {"v: {l: {}}", map[string]int64{"1": 1, "on": 2, "1.5e3": 3, "v1": 4}, "v: {l: {\"1\": 1, \"1.5e3\": 3, \"on\": 2, v1: 4}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.SetNumbers("f.yaml", []byte(tt.before), "v", "l", tt.numbers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, string(got)); diff != "" {
				t.Errorf("rewritten (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetNumbersFaults(t *testing.T) {
	for source, want := range map[string]string{
		"v: {":                              "f.yaml:1:4: not valid YAML near here",
		"- v":                               "f.yaml: v.l cannot be rewritten in place: the file is not a mapping",
		"v: all":                            "v is not a mapping",
		"v: {l: all}":                       "it is not a mapping",
		"v: {l: {b: one}}":                  `the text "one" is not a number`,
		"v: {l: {a: 1, # first\n  c: 2}}\n": "it is in braces that have comments between them; write it as a mapping with one entry a line",
		"v:\n  l:\n    b:\n      1\n":       "b and its number are not on one line",
		"w: 2\n...\n":                       "the way in which the file is written is not understood well enough",
	} {
		got, err := config.SetNumbers("f.yaml", []byte(source), "v", "l", map[string]int64{"b": 7})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", source, got, err, want)
		}
	}
}

func FuzzSetNumbers(f *testing.F) {
	for _, source := range []string{
		"", "w: 2\n", "v: {l: {a: 1}, p: all}\n", "v:\n  p: all\n  l: # x\n    a: 1 # y\n    c: 2\nw: [1, {x: y}]\n", "{w: |\n x\n}", "w: >\n  x\n\n",
	} {
		f.Add([]byte(source))
	}
	numbers := map[string]int64{"a": 5, "b": 6}
	f.Fuzz(func(t *testing.T, source []byte) {
		changed, err := config.SetNumbers("f.yaml", source, "v", "l", numbers)
		if err != nil {
			return
		}
		var got struct {
			V struct {
				L map[string]int64 `yaml:"l"`
			} `yaml:"v"`
		}
		_ = config.Decode("f.yaml", changed, &got) // other keys are unknown here
		if !maps.Equal(got.V.L, numbers) {
			t.Errorf("read back %v from\n%s", got.V.L, changed)
		}
	})
}
