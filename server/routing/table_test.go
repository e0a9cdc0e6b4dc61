package routing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

func version(model string, number int64, state catalog.State) *catalog.Version {
	v := &catalog.Version{Model: model, Number: number, State: state}
	if state == catalog.Failed {
		v.Cause = fmt.Sprintf("cause %d", number)
	}
	return v
}

func model(name string, labels map[string]int64, states ...catalog.State) *catalog.Model {
	m := &catalog.Model{Name: name, Labels: labels}
	for i, s := range states {
		m.Versions = append(m.Versions, version(name, int64(i+1), s))
	}
	return m
}

// evilNames must all be absent, and the message must stay short and printable.
var evilNames = map[string]string{
	"parent":            "../policy",
	"inside and out":    "policy/../policy",
	"absolute":          "/etc/passwd",
	"trailing slash":    "policy/",
	"dot":               ".",
	"empty":             "",
	"NUL":               "policy\x00",
	"NUL and path":      "policy\x00/../../etc",
	"newline":           "policy\nlevel=ERROR msg=forged",
	"terminal escape":   "\x1b[2Jpolicy",
	"case":              "Policy",
	"space":             "policy ",
	"Cyrillic о":        "pоlicy",
	"full width":        "ｐolicy",
	"combining":         "policy\u0301",
	"zero width":        "pol\u200bicy",
	"right to left":     "\u202eycilop",
	"invalid UTF-8":     "policy\xff\xfe",
	"long":              strings.Repeat("policy", 64<<10/6+1),
	"long, all escapes": strings.Repeat("\x00", 64<<10),
	"long, multibyte":   strings.Repeat("é", 32<<10),
	"backslash":         `policy\..\x`,
	"Windows":           `C:\policy`,
	"percent":           "%2e%2e%2fpolicy",
}

func TestEvilNamesAreNotFound(t *testing.T) {
	table := routing.NewTable(serving(1, nil))
	for what, name := range evilNames {
		t.Run(what, func(t *testing.T) {
			for _, resolve := range []func() error{
				func() error { _, err := table.Resolve(name, routing.Choice{}); return err },
				func() error { _, err := table.Resolve("m", routing.Choice{Label: &name}); return err },
				func() error { _, err := table.Model(name); return err },
			} {
				err := resolve()
				if _, ok := errors.AsType[*routing.NotFoundError](err); !ok {
					t.Fatalf("error is %v (%T), want NotFoundError", err, err)
				}
				if len(err.Error()) > 600 {
					t.Errorf("message has %d bytes: %s", len(err.Error()), err)
				}
				for _, r := range err.Error() {
					if r < ' ' || r > '~' {
						t.Fatalf("message holds %q: %q", r, err)
					}
				}
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"policy", `"policy"`},
		{"", `""`},
		{"a\"b\\c", `"a\"b\\c"`},
		{"pоlicy", `"p\u043elicy"`},
		{"\xff", `"\xff"`},
		{strings.Repeat("x", 64), `"` + strings.Repeat("x", 64) + `"`},
		{strings.Repeat("x", 65), `"` + strings.Repeat("x", 64) + `"... (65 bytes)`},
		{strings.Repeat("\x00", 100), `"` + strings.Repeat(`\x00`, 16) + `"... (100 bytes)`},
		{strings.Repeat("\x80", 100), `"` + strings.Repeat(`\x80`, 16) + `"... (100 bytes)`},
		{strings.Repeat("x", 63) + "é", `"` + strings.Repeat("x", 63) + `"... (65 bytes)`},
	} {
		if got := routing.Quote(tt.in); got != tt.want {
			t.Errorf("Quote(%.80q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, name := range evilNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := routing.Quote(name)
		if len(got) > 64+2+len("... (9223372036854775807 bytes)") {
			t.Errorf("%d bytes", len(got))
		}
		for _, b := range []byte(got) {
			if b < ' ' || b > '~' {
				t.Errorf("%q holds byte %#x", got, b)
			}
		}
	})
}

func TestListOfManyIsBounded(t *testing.T) {
	s := &catalog.Snapshot{}
	for i := range 10_000 {
		name := fmt.Sprintf("model-%05d", i)
		s.Models = s.Models.With(name, model(name, nil))
	}
	_, err := routing.NewTable(s).Model("nope")
	if err == nil || len(err.Error()) > 600 || !strings.Contains(err.Error(), `"model-00000", "model-00001"`) ||
		!strings.HasSuffix(err.Error(), " more") {
		t.Errorf("message: %v", err)
	}
}

// weights makes a split of slots a, b, c... on versions 1, 2, 3...
func weights(w ...float64) []catalog.Slot {
	var slots []catalog.Slot
	for i, weight := range w {
		slots = append(slots, catalog.Slot{Name: string(rune('a' + i)), Version: int64(i + 1), Weight: weight})
	}
	return slots
}

// serving is the snapshot of a model "m" with four ready versions, its traffic divided so.
func serving(revision uint64, split []catalog.Slot) *catalog.Snapshot {
	m := model("m", map[string]int64{"stable": 1}, catalog.Ready, catalog.Ready, catalog.Ready, catalog.Ready)
	m.Traffic = &catalog.Traffic{Revision: revision, Split: split}
	return &catalog.Snapshot{Revision: revision, Models: catalog.ByName(m)}
}

func episodeName(i int) string { return fmt.Sprintf("episode-%d", i) }

func mustRoute(t testing.TB, r *routing.Router, s *catalog.Snapshot, q routing.Request) routing.Route {
	t.Helper()
	if q.Model == "" {
		q.Model = "m"
	}
	route, err := r.Route(s, q)
	if err != nil {
		t.Fatal(err)
	}
	return route
}
