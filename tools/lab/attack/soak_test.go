package main

import (
	"io"
	"strings"
	"testing"
)

// TestSoakIsJudged: whatever grows, is lost or late fails a soak, and a server that holds the same all the time does
// not.
func TestSoakIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		grows func(now *sample, at float64)
		lost  []string
		probe float64 // ms
		idle  bool
		want  string
	}{
		"flat":        {func(*sample, float64) {}, nil, 1, false, ""},
		"descriptors": {func(now *sample, at float64) { now.descriptors += at }, nil, 1, false, "descriptors grow"},
		"goroutines":  {func(now *sample, at float64) { now.goroutines += 3 * at }, nil, 1, false, "goroutines grow"},
		"server":      {func(now *sample, at float64) { now.server += 2 * at }, nil, 1, false, "MiB grow"},
		"workers":     {func(now *sample, at float64) { now.workers += 2 * at }, nil, 1, false, "MiB grow"},
		"lost":        {func(*sample, float64) {}, []string{"one"}, 1, false, "lost"},
		"late":        {func(*sample, float64) {}, nil, 51, false, "/healthz"},
		"idle":        {func(*sample, float64) {}, nil, 1, true, "strikes"},
	} {
		s := &soak{
			soakCommand: &soakCommand{}, out: io.Discard, lost: c.lost, probes: []float64{c.probe, c.probe}, steps: 1,
			kills: 1, versions: 2,
		}
		for at := range 180 {
			now := sample{descriptors: 200 + float64(at%7), goroutines: 700, server: 300, workers: 80}
			c.grows(&now, float64(at))
			s.samples = append(s.samples, now)
		}
		struck := int64(1)
		if c.idle {
			struck = 0
		}
		err := s.judge(&fared{Sent: 1}, struck)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
