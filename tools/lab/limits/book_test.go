package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		of   series
		want float64
	}{
		{series{0: 3}, 3},
		{series{0: 9, 1: 1, 2: 2}, 2},
		{series{0: 9, 1: 1, 2: 2, 5: 4}, 3},
	} {
		if got := tt.of.median(); got != tt.want {
			t.Errorf("median of %v: %g, want %g", tt.of, got, tt.want)
		}
	}
	if got := (series{}).median(); !math.IsNaN(got) {
		t.Errorf("median of nothing: %g", got)
	}
}

// TestRatiosAreOfOneRound: each round is compared with itself, and one that lacks a figure counts nowhere.
func TestRatiosAreOfOneRound(t *testing.T) {
	slow, fast := series{0: 10, 1: 50, 2: 90}, series{0: 20, 1: 100, 3: 7}
	if diff := cmp.Diff(series{0: 0.5, 1: 0.5}, slow.over(fast)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(series{0: 10, 1: 50}, fast.minus(slow)); diff != "" {
		t.Error(diff)
	}
	if got := slow.over(nil); len(got) != 0 {
		t.Errorf("%v over nothing", got)
	}
}

func TestCells(t *testing.T) {
	for _, tt := range []struct {
		of   series
		want string
	}{
		{series{}, "–"},
		{series{4: 0.256}, "0.26"},
		{series{0: 0.2, 1: 0.3, 2: 0.9}, "0.30 (0.20 to 0.90)"},
		{series{0: 1, 1: math.Inf(1)}, "never (1.00 to never)"},
	} {
		if got := tt.of.cell("%.2f"); got != tt.want {
			t.Errorf("%v is shown as %q, want %q", tt.of, got, tt.want)
		}
	}
}
