package top

import (
	"fmt"
	"testing"

	tea "charm.land/bubbletea/v2"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// manyLanes is a server of two devices with so many lanes together, and of so many versions.
func manyLanes(lanes, versions uint32) *weftv1.Activity {
	a := &weftv1.Activity{
		Run: "many", NowMs: 5000, WindowMs: 10_000, Batches: &weftv1.BatchColumns{},
		Devices: []*weftv1.DeviceActivity{
			{Name: "cpu", Lanes: lanes - 1, BusyShare: 0.5},
			{Name: "cuda:0", Lanes: 1, FirstLane: lanes - 1, Lost: "it does not answer"},
		},
	}
	for i := range versions {
		device := "cpu"
		if i%3 == 0 {
			device = "cuda:0"
		}
		a.Versions = append(a.Versions, &weftv1.VersionActivity{
			Model: fmt.Sprintf("a-model-with-a-long-name-%02d", i), Version: 1000, Device: device,
			Share: float64(i) / 100, EntitledShare: 0.1, P99Ms: 12_345, TargetMs: 30_000,
			RequestsPerSecond: 123_456, Waiting: 100_000,
			RowsPerBatch: 1000, P50Ms: 12_345,
			Totals: &weftv1.VersionTotals{Late: 1e6, Lost: map[string]float64{"QUEUE_FULL": 1e6}},
		})
	}
	c := a.GetBatches()
	for i := range 40 * lanes {
		c.Number = append(c.Number, i+1)
		c.Version = append(c.Version, i%versions)
		c.Lane = append(c.Lane, i%lanes)
		c.StartMs = append(c.StartMs, 4000+float64(i/lanes)*25)
		c.DurationMs = append(c.DurationMs, float32(5+i%20))
		c.Flags = append(c.Flags, i%5)
	}
	return a
}

// TestMany: what does not fit is cut, and the selected row is seen.
func TestMany(t *testing.T) {
	for name, size := range map[string][4]int{
		"many-lanes.txt": {80, 24, 9, 12}, "most-lanes.txt": {100, 30, 65, 60}, "low.txt": {80, 12, 3, 8},
	} {
		s := seen(t, newDemo(), 0)
		s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		s.Update(manyLanes(uint32(size[2]), uint32(size[3])))
		for range size[3] - 1 {
			press(t, s, "down")
		}
		golden(t, name, screenText(s))
	}
}
