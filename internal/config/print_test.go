package config_test

import (
	"fmt"
	"testing"

	"github.com/weftserve/weft/internal/config"
)

// TestPrintChanged prints the settings that differ from the defaults, with the sections that they are in, and nothing
// where none does.
func TestPrintChanged(t *testing.T) {
	type inner struct {
		Kept, Changed int
		Flow          map[string]int `yaml:",flow"`
	}
	type outer struct {
		Same    inner
		Other   inner
		List    []string
		Only    *inner `yaml:",omitempty"`
		Another string
	}
	defaults := outer{Same: inner{1, 2, nil}, List: []string{"a"}, Another: "x"}
	for want, settings := range map[string]outer{
		"": defaults,
		"other:\n  changed: 7\n  flow: {k: 1}\nlist:\n  - a\n  - b\nonly:\n  kept: 0\n  changed: 0\n  flow: {}\n": {
			Same: defaults.Same, Other: inner{0, 7, map[string]int{"k": 1}}, List: []string{"a", "b"}, Only: &inner{},
			Another: "x",
		},
		"another: \"off\"\n": {Same: defaults.Same, List: defaults.List, Another: "off"},
	} {
		if got, err := config.PrintChanged(settings, defaults); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	before, now := config.DefaultServer(), config.DefaultServer()
	if d := before.Differences(&now); len(d) != 0 {
		t.Errorf("two that are alike differ: %v", d)
	}
	now.Devices, now.DrainTimeout, now.HTTP, now.RecordSample = []string{"cuda", "cpu"}, 0, "", 0.5
	const want = "[http: , was 127.0.0.1:9001 devices: [cuda cpu], was [cpu] drain-timeout: 0s, was 30s " +
		"record-sample: 0.5, was 1]"
	if got := fmt.Sprint(before.Differences(&now)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
