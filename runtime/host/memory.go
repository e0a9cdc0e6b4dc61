package host

import (
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
)

// synthMemory is the size that a synthetic model counts as, in bytes.
const synthMemory = 1 << 20

// estimate returns how many bytes a version is expected to need.
func estimate(c *residency.Candidate) int64 {
	if c.Manifest.Synth != nil {
		return synthMemory
	}
	return fleet.Estimate(c.Version.Dir)
}

// SetMemoryBudget changes Config.MemoryBudget. Versions that failed for lack of it are tried again if it suffices now;
// resident versions stay.
func (h *Host) SetMemoryBudget(bytes int64) {
	h.memory.SetLimit(bytes)
	h.memoryFreed()
}
