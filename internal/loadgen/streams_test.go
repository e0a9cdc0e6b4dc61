package loadgen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
)

func streamsOf(t *testing.T, yaml string) (string, []Stream, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "streams.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &Options{Streams: path, Duration: config.Duration(time.Second), Connections: 1}
	o.SetDefaults()
	streams, err := o.streams()
	return filepath.Dir(path), streams, err
}

func TestStreams(t *testing.T) {
	dir, got, err := streamsOf(t, `
streams:
  - {model: policy, rate: 100, arrivals: gamma, cv: 2.5, deadline: 20ms, priority: critical_plus}
  - {name: heavy, model: policy, label: stable, callers: 3, rows: 8, request: heavy.json}
  - {model: other, version: 2, trace: /times.txt, deadline: 0}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Stream{
		stream(func(s *Stream) {
			s.Rate, s.Arrivals, s.CV, s.Priority = 100, gamma, 2.5, "critical_plus"
			s.Deadline = config.Duration(20 * time.Millisecond)
		}),
		stream(func(s *Stream) {
			s.Name, s.Label, s.Callers, s.Rows, s.Request = "heavy", "stable", 3, 8, filepath.Join(dir, "heavy.json")
		}),
		stream(func(s *Stream) {
			s.Name, s.Model, s.Version, s.Trace, s.Deadline = "other", "other", 2, "/times.txt", 0
		}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStreamFaults(t *testing.T) {
	for yaml, want := range map[string]string{
		"streams: []": "streams: there are none",
		"streams: [{model: a, rate: 1}, {model: a, callers: 1}]":    `streams[1]: a stream before it is named "a", too`,
		"streams: [{model: a}]":                                     "streams[0].rate: not set, nor callers",
		"streams: [{model: a, rate: -1}]":                           "streams[0].rate: -1 is out of range",
		"streams: [{model: a, rate: 1, arrivals: gamma}]":           "streams[0].cv: 0 is out of range",
		"streams: [{model: a, rate: 1, cv: 2}]":                     "streams[0].cv: arrivals are poisson",
		"streams: [{model: a, rate: 1, rows: 0}]":                   "streams[0].rows: 0 is out of range",
		"streams: [{model: a, rate: 1, retries: -1}]":               "streams[0].retries: -1 is out of range",
		"streams: [{model: a, rate: 1, patience: -1s}]":             "streams[0].patience: ",
		"streams: [{model: a, rate: 1, priority: high}]":            "streams[0].priority: ",
		"streams: [{model: a, rate: 1, version: 3, label: stable}]": `streams[0].label: "stable" beside version 3`,
		"streams: [{model: a, callers: 1000000}]":                   "streams[0].callers: 1000000 is out of range",
		"streams: [{model: a, rate: 1, dedline: 1s}]":               `did you mean "deadline"?`,
	} {
		if _, _, err := streamsOf(t, yaml); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant ...%s...", yaml, err, want)
		}
	}
}
