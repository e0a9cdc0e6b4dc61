package web

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/server/protect"
)

// TestScanner: the scanner takes what encoding/json takes, and reads the same in it, but for NaN and infinities, which
// it takes, and bytes that are not UTF-8, which it does not.
func TestScanner(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 21))
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	text := func() string {
		parts := make([]string, rng.IntN(4))
		for i := range parts {
			parts[i] = one("a", "é", "😀", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\ude00`,
				`\ud83d\u0041`, `\ud83d\n`, " ", "\u2028", "/")
		}
		return `"` + strings.Join(parts, "") + `"`
	}
	var value func(depth int) string
	value = func(depth int) string {
		kinds := 12
		if depth == 0 {
			kinds = 10
		}
		var parts []string
		switch k := rng.IntN(kinds); k {
		case 10:
			for range rng.IntN(4) {
				parts = append(parts, value(depth-1))
			}
			return "[" + one("", " ", "\n\t\r") + strings.Join(parts, one(",", " , ")) + "]"
		case 11:
			for range rng.IntN(4) {
				parts = append(parts, text()+one(":", " : ")+value(depth-1))
			}
			return "{" + strings.Join(parts, ",") + one("", " ") + "}"
		default:
			return one("0", "-0", "12", "-1.5", "1e5", "1E+05", "2.5e-3", "true", "false", "null", "NaN", "Infinity",
				"-Infinity", text(), text(), text())
		}
	}
	odd := []string{
		"[", "]", "{", "}", ",", ":", `"`, `\`, "0", "1", "-", "+", ".", "e", "t", "null", "NaN", "I", " ", "\x00", "\x1f", "\x80",
		`\u12`, `\x`, "é", "\u00a0",
	}
	sound, texts := 0, 50_000
	if testing.Short() || race.Enabled {
		texts = 5_000
	}
	for range texts {
		in := []byte(value(4))
		for range rng.IntN(3) { // broken, in most cases
			at := rng.IntN(len(in) + 1)
			end := min(len(in), at+rng.IntN(2))
			in = append(append(bytes.Clone(in[:at]), odd[rng.IntN(len(odd))]...), in[end:]...)
		}
		s := Scanner{Text: in, Turn: &protect.Turn{}}
		err := s.Skip()
		if err == nil {
			err = s.End()
		}
		plain := []byte(finite.Replace(string(in)))
		if want := json.Valid(plain) && utf8.Valid(in); (err == nil) != want {
			t.Fatalf("%q: %v, sound: %t", in, err, want)
		}
		if err != nil {
			continue
		}
		sound++
		var want any
		d := json.NewDecoder(bytes.NewReader(plain))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		s = Scanner{Text: in, Turn: &protect.Turn{}}
		got, err := plainOf(&s)
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if a, b := finite.Replace(asJSON(t, got)), asJSON(t, want); a != b {
			t.Fatalf("%q is %s, want %s", in, a, b)
		}
	}
	if sound < texts/20 {
		t.Errorf("only %d texts were sound", sound)
	}
}

// finite has an empty list where JSON has no number, which nothing else next to it can become a part of.
var finite = strings.NewReplacer("-Infinity", "[]", "Infinity", "[]", "NaN", "[]")

// plainOf reads a value as encoding/json does.
func plainOf(s *Scanner) (any, error) {
	kind := s.Kind()
	switch kind {
	case '{':
		all := map[string]any{}
		err := s.Object(func(name []byte) error {
			key := string(name)
			v, err := plainOf(s)
			all[key] = v
			return err
		})
		return all, err
	case '[':
		all := []any{}
		err := s.List(func() error {
			v, err := plainOf(s)
			all = append(all, v)
			return err
		})
		return all, err
	}
	text, err := s.Scalar()
	switch {
	case kind == '"':
		return TextOf(text), err
	case kind == 't', kind == 'f':
		return kind == 't', err
	case json.Valid(text):
		return json.RawMessage(text), err
	case kind == ANumber:
		return []any{}, err
	}
	return nil, err
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
