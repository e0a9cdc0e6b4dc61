package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

var errTest = errors.New("nobody listens")

// TestTextsOfCallers: what callers name their requests does nothing to a terminal.
func TestTextsOfCallers(t *testing.T) {
	for text, want := range map[string]string{
		"robot-7/step-1":       "robot-7/step-1",
		"\x1b[2Jgone\x07":      "?[2Jgone?",
		"a\u202eb":             "a?b",
		"日本語":                  "日本語",
		"e\u0301":              "e",
		"a\nb":                 "a?b",
		"\u009b31m":            "?31m",
		"12345678901234567890": "1234567890123456",
		"123456789012345日":     "123456789012345",
	} {
		g := newGrid(16, 1)
		if g.text(0, 0, 16, text, normal); g.String() != want {
			t.Errorf("%q: %q, want %q", text, g.String(), want)
		}
	}
}

func TestPalette(t *testing.T) {
	// The page in the browser computes the same.
	for label, want := range map[string]color{
		"cartpole v1": 0x0072b2, "cartpole v2": 0xcc79a7, "cartpole v3": 0x56b4e9, "ranker v2": 0xe69f00,
		"ranker v3": 0xd55e00, "pick v1": 0x009e73, "pick v8": 0xf0e442,
	} {
		if got := colorOf(label); got != want {
			t.Errorf("%s: %06x, want %06x", label, got, want)
		}
	}
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.004: "0", 0.04: "0.04", 0.996: "1.0", 1.25: "1.2", 9.94: "9.9", 9.96: "10", 312.4: "312", 9999: "9999",
		12_345:    "12k",
		2_500_000: "2.5M",
	} {
		if got := digits(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestWrapped(t *testing.T) {
	lines := wrapped("one two three four five", 9, 2)
	if len(lines) != 2 || lines[0] != "one two" || lines[1] != "three fo…" {
		t.Errorf("%q", lines)
	}
}

// TestSentence has batches (MODEL START END) and requests for walk v1 (END ARRIVAL STARTED ENDED [REASON]) in the last
// seconds before 20,000 ms, and says who was late because of what.
func TestSentence(t *testing.T) {
	datadriven.RunTest(t, "testdata/script/sentence.txt", func(t *testing.T, d *datadriven.TestData) string {
		h := &history{Activity: &weftv1.Activity{NowMs: 20_000}}
		versions := map[string]*version{}
		for _, model := range []string{"walk", "rank"} {
			versions[model] = &version{label: model + " v1", VersionActivity: &weftv1.VersionActivity{Device: "cpu"}}
		}
		for line := range strings.Lines(d.Input) {
			var what string
			var q request
			if _, err := fmt.Sscan(line, &what, &q.Arrival, &q.Started); err != nil {
				t.Fatal(err)
			}
			if of := versions[what]; of != nil {
				h.batches = append(h.batches, batch{of: of, start: q.Arrival, end: q.Started})
				continue
			}
			_, _ = fmt.Sscan(line, &what, &q.Arrival, &q.Started, &q.End, &q.Reason) // there may be no reason
			q.How, q.of = weftv1.RequestEnd(weftv1.RequestEnd_value["REQUEST_END_"+strings.ToUpper(what)]), versions["walk"]
			h.requests = append(h.requests, q)
		}
		return h.wronged() + "\n"
	})
}
