package placement_test

import (
	"testing"

	"github.com/weftserve/weft/runtime/fleet/placement"
)

func TestBest(t *testing.T) {
	type devices = []placement.Device
	for name, c := range map[string]struct {
		devices devices
		prefer  string
		want    string
	}{
		"one":             {devices: devices{{Name: "a"}}, want: "a"},
		"idle: the first": {devices: devices{{Name: "b"}, {Name: "a"}}, want: "b"},
		"the least loaded": {devices: devices{
			{Name: "a", Load: 0.6},
			{Name: "b", Load: 0.1},
			{Name: "c", Load: 2},
		}, want: "b"},
		"alike: the fewest versions": {devices: devices{
			{Name: "a", Load: 0.31, Versions: 2},
			{Name: "b", Load: 0.32, Versions: 1},
		}, want: "b"},
		"load before versions": {
			devices: devices{{Name: "a", Load: 0.9}, {Name: "b", Load: 0.2, Versions: 9}},
			want:    "b",
		},
		"rank before load": {devices: devices{{Name: "cpu", Rank: 1}, {Name: "cuda:0", Load: 5}}, want: "cuda:0"},
		"preferred": {
			devices: devices{{Name: "a"}, {Name: "b", Load: 0.2, Versions: 3}},
			prefer:  "b", want: "b",
		},
		"preferred, the first": {
			devices: devices{{Name: "a", Load: 0.2, Versions: 3}, {Name: "b"}},
			prefer:  "a", want: "a",
		},
		"preferred, but clearly more loaded": {
			devices: devices{{Name: "a", Load: 0.1}, {Name: "b", Load: 0.4}}, prefer: "b", want: "a",
		},
		"preferred, but it has no room": {
			devices: devices{{Name: "a", Load: 0.1}, {Name: "c"}},
			prefer:  "b", want: "c",
		},
		"preferred of a lower rank is not loaded by a higher one": {
			devices: devices{{Name: "cpu", Rank: 1}, {Name: "b", Load: 0.9}, {Name: "c", Load: 0.8}},
			prefer:  "b", want: "b",
		},
		"rank before preference": {
			devices: devices{{Name: "cpu", Rank: 1}, {Name: "a", Load: 3}},
			prefer:  "cpu", want: "a",
		},
	} {
		if got := placement.Best(c.devices, c.prefer); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
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
