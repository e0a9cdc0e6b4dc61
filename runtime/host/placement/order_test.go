package placement_test

import (
	"slices"
	"testing"

	"github.com/weftserve/weft/runtime/host/placement"
)

func TestOrder(t *testing.T) {
	type devices = []placement.Device
	const unknown = -1
	for name, c := range map[string]struct {
		devices devices
		need    int64
		prefer  string
		want    []string
	}{
		"none":             {want: []string{}},
		"one":              {devices: devices{{Name: "a"}}, want: []string{"a"}},
		"idle: in order":   {devices: devices{{Name: "b"}, {Name: "a"}}, want: []string{"b", "a"}},
		"the least loaded": {devices: devices{{Name: "a", Load: 0.6}, {Name: "b", Load: 0.1}, {Name: "c", Load: 2}}, want: []string{"b", "a", "c"}},
		"alike: the fewest versions": {
			devices: devices{{Name: "a", Load: 0.31, Versions: 2}, {Name: "b", Load: 0.32, Versions: 1}}, want: []string{"b", "a"},
		},
		"load before versions": {devices: devices{{Name: "a", Load: 0.9}, {Name: "b", Load: 0.2, Versions: 9}}, want: []string{"b", "a"}},
		"no room": {
			devices: devices{{Name: "a", Free: 99}, {Name: "b", Free: 100, Load: 3}, {Name: "c", Free: unknown, Load: 4}},
			need:    100, want: []string{"b", "c"},
		},
		"rank before load": {devices: devices{{Name: "cpu", Rank: 1}, {Name: "cuda:0", Load: 5}}, want: []string{"cuda:0", "cpu"}},
		"rank without room": {
			devices: devices{{Name: "cpu", Rank: 1, Free: unknown}, {Name: "cuda:0", Free: 1}}, need: 2, want: []string{"cpu"},
		},
		"preferred": {devices: devices{{Name: "a"}, {Name: "b", Load: 0.2, Versions: 3}}, prefer: "b", want: []string{"b", "a"}},
		"preferred, but clearly more loaded": {
			devices: devices{{Name: "a", Load: 0.1}, {Name: "b", Load: 0.4}}, prefer: "b", want: []string{"a", "b"},
		},
		"preferred, but full": {
			devices: devices{{Name: "a", Free: unknown}, {Name: "b"}}, need: 1, prefer: "b", want: []string{"a"},
		},
		"preferred of a lower rank is not loaded by a higher one": {
			devices: devices{{Name: "cpu", Rank: 1}, {Name: "b", Load: 0.9}, {Name: "c", Load: 0.8}}, prefer: "b", want: []string{"b", "c", "cpu"},
		},
		"rank before preference": {devices: devices{{Name: "cpu", Rank: 1}, {Name: "a", Load: 3}}, prefer: "cpu", want: []string{"a", "cpu"}},
	} {
		given := slices.Clone(c.devices)
		if got := placement.Order(c.devices, c.need, c.prefer); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !slices.Equal(given, c.devices) {
			t.Errorf("%s: the list that was given is changed", name)
		}
	}
}

func TestExcess(t *testing.T) {
	for _, c := range []struct {
		loads []float64
		want  int
	}{
		{[]float64{0.3}, 0},
		{[]float64{0, 0, 0}, 2},
		{[]float64{0.3, 0.2, 0.1}, 2},
		{[]float64{0.9, 0.4, 0.1}, 0},
		{[]float64{0.4, 0.9, 0.1}, 1},
		{[]float64{0.4, 0.5, 0.1}, 0}, // 0.5 is not clearly more than 0.4
	} {
		if got := placement.Excess(c.loads); got != c.want {
			t.Errorf("of %v it gives up %d, want %d", c.loads, got, c.want)
		}
	}
}
