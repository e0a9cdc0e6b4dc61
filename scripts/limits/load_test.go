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
	if said := thrownAway(b, place{name: "p"}); !strings.HasPrefix(said, "p: 2 of 4 runs") {
		t.Error(said)
	}
}
