package host

import "sync/atomic"

// counts are sums since the host was made.
type counts struct{ loads, failures, unloads atomic.Uint64 }

// Counts holds the host's counts since it was made, and the memory that it holds.
type Counts struct {
	// Loads counts versions that became ready, LoadFailures attempts that failed, and Unloads versions that were
	// unloaded, those that another one replaced among them. TakenOut counts how often a version was taken out because
	// its requests end the engine's process again and again.
	Loads, LoadFailures, Unloads, TakenOut uint64
	// MemoryInUse and MemoryBudget are bytes, by the estimate described at Config.MemoryBudget; a budget of 0 is none.
	MemoryInUse, MemoryBudget int64
}

// Counts returns the present counts.
func (h *Host) Counts() Counts {
	inUse, budget := h.memory.InUse()
	h.mu.Lock()
	takenOut := h.residency.TakenOut()
	h.mu.Unlock()
	return Counts{
		Loads: h.counts.loads.Load(), LoadFailures: h.counts.failures.Load(), Unloads: h.counts.unloads.Load(),
		TakenOut:    takenOut,
		MemoryInUse: inUse, MemoryBudget: budget,
	}
}
