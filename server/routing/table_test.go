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

// house has one model in each state of affairs. Sorted by name, as a snapshot is.
func house() *catalog.Snapshot {
	const (
		loading, ready, failed, unloading = catalog.Loading, catalog.Ready, catalog.Failed, catalog.Unloading
	)
	broken := model("broken", nil)
	broken.Cause = "model.yaml line 3"
	crashing := model("crashing", nil, failed, failed)
	crashing.Versions[0].TakenOut = true
	return &catalog.Snapshot{Models: catalog.ByName(
		broken,
		model("coming", nil, failed, loading),
		crashing,
		model("empty", nil),
		model("failed", nil, failed, failed),
		model("leaving", nil, failed, unloading, failed),
		model("policy", map[string]int64{"stable": 1, "next": 3, "gone": 9, "bad": 4}, ready, ready, loading, failed),
	)}
}

func TestResolve(t *testing.T) {
	table := routing.NewTable(house())
	choose := func(v int64) routing.Choice { return routing.Choice{Version: &v} }
	label := func(l string) routing.Choice { return routing.Choice{Label: &l} }
	for _, tt := range []struct {
		name    string
		model   string
		choice  routing.Choice
		version int64
		slot    string
		err     string
	}{
		{name: "newest ready", model: "policy", version: 2, slot: "prod"},
		{name: "explicit", model: "policy", choice: choose(1), version: 1},
		{name: "label", model: "policy", choice: label("stable"), version: 1},
		{
			name: "explicit loading", model: "policy", choice: choose(3),
			err: `model "policy" version 3 is loading; try again`,
		},
		{
			name: "explicit failed", model: "policy", choice: choose(4),
			err: `model "policy" version 4 failed to load: cause 4`,
		},
		{
			name: "label of a loading version", model: "policy", choice: label("next"),
			err: `model "policy" version 3 is loading; try again`,
		},
		{
			name: "label of a failed version", model: "policy", choice: label("bad"),
			err: `model "policy" version 4 failed to load: cause 4`,
		},
		{
			name: "label of no version", model: "policy", choice: label("gone"),
			err: `the label "gone" of model "policy" names version 9, which is not there; there is 4 (failed), 3 (loading), 2, 1 (change the label, or put the version where it was)`,
		},
		{
			name: "unknown version", model: "policy", choice: choose(7),
			err: `model "policy" has no version 7; there is 4 (failed), 3 (loading), 2, 1 (versions.policy in model.yaml, and who loads and unloads by hand, decide which are served)`,
		},
		{
			name: "version zero", model: "policy", choice: choose(0),
			err: `model "policy" has no version 0; there is 4 (failed), 3 (loading), 2, 1 (versions.policy in model.yaml, and who loads and unloads by hand, decide which are served)`,
		},
		{
			name: "unknown label", model: "policy", choice: label("canary"),
			err: `model "policy" has no label "canary"; there is "bad", "gone", "next", "stable"`,
		},
		{
			name: "empty label", model: "policy", choice: label(""),
			err: `model "policy" has no label ""; there is "bad", "gone", "next", "stable"`,
		},
		{
			name: "label where there is none", model: "failed", choice: label("x"),
			err: `model "failed" has no label "x"; there is none`,
		},
		{
			name: "unknown model", model: "polcy",
			err: `no model is named "polcy"; there is "broken", "coming", "crashing", "empty", "failed", "leaving", "policy"`,
		},
		{name: "one is loading", model: "coming", err: `model "coming" version 2 is loading; try again`},
		{name: "one is unloading", model: "leaving", err: `model "leaving" version 2 is unloading; try again`},
		{name: "one was taken out", model: "crashing", err: `model "crashing" version 1: cause 1`},
		{name: "all failed", model: "failed", err: `model "failed" version 2 failed to load: cause 2`},
		{name: "unreadable", model: "broken", err: `model "broken" could not be read: model.yaml line 3`},
		{
			name: "unreadable, explicit", model: "broken", choice: choose(1),
			err: `model "broken" could not be read: model.yaml line 3`,
		},
		{
			name: "no versions", model: "empty",
			err: `all versions of model "empty" were unloaded by hand; load one with LoadVersion of weft.v1.AdminService, or change versions.policy in model.yaml`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			route, err := table.Resolve(tt.model, tt.choice)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error is %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if route.Version.Number != tt.version || route.Slot != tt.slot {
				t.Errorf("routed to version %d by slot %q, want %d by %q", route.Version.Number, route.Slot, tt.version,
					tt.slot)
			}
		})
	}
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
	table := routing.NewTable(house())
	for what, name := range evilNames {
		t.Run(what, func(t *testing.T) {
			for _, resolve := range []func() error{
				func() error { _, err := table.Resolve(name, routing.Choice{}); return err },
				func() error { _, err := table.Resolve("policy", routing.Choice{Label: &name}); return err },
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

func TestRouterFollowsSnapshots(t *testing.T) {
	var router routing.Router
	answers := func(s *catalog.Snapshot) int64 {
		t.Helper()
		route, err := router.Table(s).Resolve("m", routing.Choice{})
		if err != nil {
			t.Fatal(err)
		}
		return route.Version.Number
	}
	first := &catalog.Snapshot{Revision: 1, Models: catalog.ByName(model("m", nil, catalog.Ready))}
	second := &catalog.Snapshot{Revision: 2, Models: catalog.ByName(model("m", nil, catalog.Ready, catalog.Ready))}
	if got := answers(first); got != 1 {
		t.Errorf("version %d answers the first snapshot", got)
	}
	if once, again := router.Table(first), router.Table(first); once != again {
		t.Error("the table of one snapshot is built twice")
	}
	if got := answers(second); got != 2 {
		t.Errorf("version %d answers the second snapshot", got)
	}
	if got := answers(first); got != 2 {
		t.Errorf("a late reader of the first snapshot turned time back to version %d", got)
	}
}

// TestMostOfTheTraffic: a question about a model as such is answered for the version that most requests get.
func TestMostOfTheTraffic(t *testing.T) {
	for name, c := range map[string]struct {
		traffic *catalog.Traffic
		want    int64
	}{
		"undivided": {nil, 2},
		"most to 1": {&catalog.Traffic{Split: []catalog.Slot{
			{Name: "a", Version: 1, Weight: 3},
			{Name: "b", Version: 2, Weight: 1},
		}}, 1},
		"most to b": {&catalog.Traffic{Split: []catalog.Slot{
			{Name: "a", Version: 2, Weight: 1},
			{Name: "b", Version: 1, Weight: 3},
		}}, 1},
		"one loads": {&catalog.Traffic{Split: []catalog.Slot{
			{Name: "a", Version: 3, Weight: 3},
			{Name: "b", Version: 1, Weight: 1},
		}}, 1},
	} {
		m := &catalog.Model{Name: "m", Traffic: c.traffic, Versions: []*catalog.Version{
			{Model: "m", Number: 1, State: catalog.Ready},
			{Model: "m", Number: 2, State: catalog.Ready},
			{Model: "m", Number: 3, State: catalog.Loading},
		}}
		got, err := routing.NewTable(&catalog.Snapshot{Models: catalog.ByName(m)}).Resolve("m", routing.Choice{})
		if err != nil || got.Version == nil || got.Version.Number != c.want {
			t.Errorf("%s: %+v, %v, want version %d", name, got.Version, err, c.want)
		}
	}
}
