package serving

import (
	"testing"

	"github.com/weftserve/weft/runtime/fleet"
)

// TestCostsAreInheritedFromTheVersionBefore: of several resident versions, the nearest before; without one, the nearest
// after.
func TestCostsAreInheritedFromTheVersionBefore(t *testing.T) {
	cpu, gpu := &fleet.Device{Name: "cpu"}, &fleet.Device{Name: "cuda:0"}
	var all []*Replica
	for number, on := range map[int64]*fleet.Device{2: cpu, 4: cpu, 5: gpu, 9: cpu} {
		all = append(all, &Replica{Version: &Version{Number: number}, Device: on})
	}
	for number, want := range map[int64]int64{1: 2, 3: 2, 7: 4, 9: 4, 12: 9} {
		got := Nearest(all, number, cpu)
		if got == nil || got.Number != want {
			t.Errorf("version %d inherits from %+v, want version %d", number, got, want)
		}
	}
	if got := Nearest(all, 6, nil); got == nil || got.Number != 5 {
		t.Errorf("version 6 is to be near %+v, want version 5, wherever that is", got)
	}
	if got := Nearest(nil, 1, cpu); got != nil {
		t.Errorf("a new model inherits from version %d", got.Number)
	}
}
