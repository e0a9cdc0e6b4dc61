package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the difference before committing it")

var ignorePrivate = cmpopts.IgnoreUnexported(settings{})

func TestDecodeValues(t *testing.T) {
	const source = "\ufeff--- # a byte order mark, a document mark and CRLF are nobody's fault\r\n" + `
name: "on"
count: 10
small: -128
share: 1
enabled: true
wait: 500us
memory: 2MiB
color: green
colors: [red, red]
sizes:
  - 1
  - 64
nested: {batch_size: 9}
section: {x: 1, y: 2}
places:
  495: {x: 1}
  "a.x": {y: 2}
  a: {x: 3}
picked: {last: 2}
`
	want := settings{
		Name: "on", Count: 10, Small: -128, Share: 1, Enabled: true,
		Wait: config.Duration(500 * time.Microsecond), Memory: 2 * config.MiB,
		Color: "green", Colors: []color{"red", "red"}, Sizes: []int{1, 64},
		Nested:  nested{MaxQueue: 7, BatchSize: 9},
		Section: &section{X: 1, Y: 2},
		Places:  map[string]section{"495": {X: 1}, "a.x": {Y: 2}, "a": {X: 3}},
		Picked:  pick{Last: 2}, // replaced, not merged: First is gone
	}
	got := defaults()
	if err := config.Decode("f.yaml", []byte(source), &got, got.check); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignorePrivate); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestNumbersWithExponents(t *testing.T) {
	for text, want := range map[string]float64{"1e-12": 1e-12, "+2E3": 2000, "-1e+2": -100, "1.5e-3": 0.0015} {
		var got settings
		if err := config.Decode("f.yaml", []byte("share: "+text), &got); err != nil || got.Share != want {
			t.Errorf("%s is read as %v, %v", text, got.Share, err)
		}
	}
	for _, text := range []string{`"1e-12"`, "1e", "e3", "1e-", "1e999", "1e-12x"} {
		var got settings
		if err := config.Decode("f.yaml", []byte("share: "+text), &got); err == nil {
			t.Errorf("%s is read as %v", text, got.Share)
		}
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	for _, source := range []string{"", "# nothing\n", "---\n", "{}", "\n\n"} {
		got := defaults()
		if err := config.Decode("f.yaml", []byte(source), &got, got.check); err != nil {
			t.Errorf("%q: %v", source, err)
		}
		if diff := cmp.Diff(defaults(), got, ignorePrivate); diff != "" {
			t.Errorf("%q changed a default (-want +got):\n%s", source, diff)
		}
	}
}

// TestFaults holds the whole text of every error that a user can cause: testdata/faults/NAME.yaml is read, and NAME.txt
// holds the faults that must come out.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no input: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := defaults()
			err = config.Decode(filepath.Base(file), source, &s, s.check)
			if err == nil {
				t.Fatal("no fault was found")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestFaultFields(t *testing.T) {
	s := defaults()
	err := config.Decode("f.yaml", []byte("name: x\nnested:\n  max_queu: 4\n"), &s)
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		t.Fatalf("the error is a %T", err)
	}
	want := config.Faults{{
		File: "f.yaml", Line: 3, Column: 3, Text: "  max_queu: 4",
		Key: "nested.max_queu", Message: "unknown key", Open: true, Suggestion: "max_queue",
	}}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// Input that a parser could be slow on or run out of stack on is refused, quickly and with a sentence.
func TestDecodeIsBounded(t *testing.T) {
	size := int(config.MaxSize)
	for name, source := range map[string]string{
		"brackets":      strings.Repeat("[", size),
		"braces":        strings.Repeat("{a: ", size/4),
		"dashes":        strings.Repeat("- ", size/2),
		"question":      strings.Repeat("? ", size/2),
		"tags":          strings.Repeat("!a ", size/3),
		"anchors":       strings.Repeat("&a ", size/3),
		"too large":     strings.Repeat("#\n", size),
		"not text":      "name: \xff\xfe\n",
		"open quote":    "name: 'x",
		"control bytes": "\x00\x01\x02",
	} {
		s := defaults()
		if err := config.Decode("f.yaml", []byte(source), &s); err == nil {
			t.Errorf("%s: accepted", name)
		} else if len(err.Error()) > 8<<20 {
			t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
	}
}

func TestPrintReadsBack(t *testing.T) {
	s := defaults()
	s.Wait, s.Memory = config.Duration(90*time.Second), 3*config.KiB
	s.Color, s.Section = "green", &section{X: 1, Y: 1}
	s.Nested.Words = []string{"on", "null", "1", "a: b", "", "é # x", "two\nlines"}
	readsBack(t, s)
}

// share has a default that is not zero, wherever it is an element.
type share struct {
	Part  float64 `yaml:"part"`
	Times int     `yaml:"times"`
}

func (s *share) SetDefaults() { s.Part = 1 }

func TestElementsBeginWithTheirDefaults(t *testing.T) {
	type shares struct {
		List  []share          `yaml:"list"`
		Named map[string]share `yaml:"named"`
		Field share            `yaml:"field"`
	}
	const source = `
list: [{times: 2}, {part: 0}, {}]
named: {a: {times: 3}, b: {part: 0.5}}
field: {times: 4} # the program has set it, or not, before
`
	want := shares{
		List:  []share{{Part: 1, Times: 2}, {Part: 0}, {Part: 1}},
		Named: map[string]share{"a": {Part: 1, Times: 3}, "b": {Part: 0.5}},
		Field: share{Part: 7, Times: 4},
	}
	got := shares{Field: share{Part: 7}}
	if err := config.Decode("f.yaml", []byte(source), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestDecodePanicsOnTheProgramsMistakes(t *testing.T) {
	for name, into := range map[string]any{
		"no pointer": settings{},
		"no struct":  new(int),
		"unknown type": &struct {
			X chan int `yaml:"x"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			_ = config.Decode("f.yaml", []byte("x: 1"), into)
		}()
	}
}

func TestUnsigned(t *testing.T) {
	var s struct {
		Seed uint64 `yaml:"seed"`
	}
	if err := config.Decode("f.yaml", []byte("seed: 9223372036854775807"), &s); err != nil || s.Seed != 1<<63-1 {
		t.Errorf("%d, error %v", s.Seed, err)
	}
	for _, text := range []string{"-1", "1.5", "one", "9223372036854775808"} {
		err := config.Decode("f.yaml", []byte("seed: "+text), &s)
		if err == nil || !strings.Contains(err.Error(), "expected a whole number from 0 to 9223372036854775807, found") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
