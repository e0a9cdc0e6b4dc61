package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// elements parses an SVG and counts its elements by name.
func elements(t *testing.T, svg string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("the drawing is no XML: %v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

func TestBars(t *testing.T) {
	all := []series{{"ours & theirs", []float64{1, 0.5, 0}}, {"a < b", []float64{0.2, 0.3, 0.4}}}
	svg := bars("title", "unit", []string{"x", "y", "z"}, all)
	// A bar for each value, a mark for each series in the legend, and the ground.
	if got := elements(t, svg)["rect"]; got != 2*3+2+1 {
		t.Errorf("%d rectangles, want 9:\n%s", got, svg)
	}
	// The tallest bar is as high as the axes, which end at its value; half of it is half as high.
	for _, want := range []string{
		`height="320.0" fill="#d62728"`, `height="160.0" fill="#d62728"`,
		"ours &amp; theirs, z: 0.00",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

func TestLines(t *testing.T) {
	svg := lines("title", "unit", "load", []float64{0, 1, 2},
		[]series{{"a", []float64{1, 1, 0.5}}, {"b", []float64{0, 0, 0}}})
	if got := elements(t, svg)["polyline"]; got != 2 {
		t.Errorf("%d lines, want 2", got)
	}
	if want := `points="50.0,52.0 500.0,52.0 950.0,212.0"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in\n%s", want, svg)
	}
}

func TestAxisIsRound(t *testing.T) {
	for _, tt := range []struct{ most, want float64 }{
		{1, 0.1},
		{1.04, 0.2},
		{0.97, 0.1},
		{3.7, 0.5},
		{0, 1},
		{80, 10},
	} {
		if got := roundStep(tt.most); got < tt.want*0.999 || got > tt.want*1.001 {
			t.Errorf("steps of %g up to %g, want %g", got, tt.most, tt.want)
		}
	}
}
