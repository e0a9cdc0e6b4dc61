package main

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	ms := time.Millisecond
	episodes := []*episode{
		{
			served: 10, sum: 30, finished: true, calls: [...]int{answered: 3, late: 1, refused: 0, failed: 0},
			latencies: []time.Duration{3 * ms, ms, 2 * ms}, rows: 12,
		},
		{
			served: 2, sum: 10, finished: true, calls: [...]int{answered: 1, late: 0, refused: 0, failed: 0},
			latencies: []time.Duration{4 * ms}, rows: 1,
		},
		{
			served: 2, sum: 14, finished: true, calls: [...]int{answered: 1, late: 0, refused: 2, failed: 3},
			latencies: []time.Duration{2 * ms}, rows: 2, firstErr: errors.New("broken"),
		},
		{
			served: 2, sum: 99, calls: [...]int{answered: 1, late: 0, refused: 0, failed: 0},
			latencies: []time.Duration{6 * ms}, rows: 3, behind: 1,
		},
		{wish: "stable", calls: [...]int{answered: 0, late: 5, refused: 0, failed: 0}, finished: true, sum: 1},
		{served: 2, mixed: true, calls: [...]int{answered: 0, late: 0, refused: 0, failed: 0}},
	}
	var out strings.Builder
	if err := writeReport(&out, episodes); err != nil {
		t.Fatal(err)
	}
	// Columns are compared without their padding.
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"version episodes return ± s.e. calls late refused failed p50 ms p99 ms batch rows",
		"2 2 12.0 2.0 8 0 2 3 4.00 6.00 2.00",
		"10 1 30.0 - 4 1 0 0 2.00 3.00 4.00",
		"mixed 0 - - 0 0 0 0 - - -",
		"stable 1 1.0 - 5 5 0 0 - - -",
		"version 2: a call was not served: broken",
		"2 episodes were cut short; their returns are left out",
		"this program itself began 1 of 17 periods more than a period late: lower --episodes or --hz before you " +
			"blame " +
			"the server",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestEpisodeNotesVersions(t *testing.T) {
	e := &episode{wish: "stable"}
	e.record(answer{outcome: late, err: errors.New("late")})
	if got := e.versionName(); got != "stable" {
		t.Errorf("unanswered: version %q, want the wish", got)
	}
	e.record(answer{version: 2})
	e.record(answer{version: 2})
	if got := e.versionName(); got != "2" {
		t.Errorf("answered by 2: version %q", got)
	}
	e.record(answer{version: 3})
	e.record(answer{version: 3})
	if got := e.versionName(); got != "mixed" {
		t.Errorf("answered by 2 and 3: version %q, want mixed", got)
	}
	if e.firstErr != nil {
		t.Errorf("a late call is not a failure: %v", e.firstErr)
	}
}

func TestMeanAndError(t *testing.T) {
	mean, standardError := meanAndError([]float64{1, 2, 3, 4})
	if math.Abs(mean-2.5) > 1e-12 || math.Abs(standardError-math.Sqrt(5.0/3)/2) > 1e-12 {
		t.Errorf("mean %v ± %v, want 2.5 ± 0.645", mean, standardError)
	}
}
