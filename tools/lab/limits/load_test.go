package main

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/loadgen"
)

func TestLateClient(t *testing.T) {
	b := newBook()
	for _, lag := range []*loadgen.Quantiles{nil, {P99: 4.9}, {P99: 5.1}, {P99: 80}} {
		b.count("p", measured{StreamReport: &loadgen.StreamReport{LagMs: lag}}.late())
	}
	b.disturb("p", 0.1)
	b.disturb("p", 0.3)
	said := doubts(b, place{name: "p"})
	for _, want := range []string{"p: 2 of 4 runs", " 20 (10 to 30) %"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
}
