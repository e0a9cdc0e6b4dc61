package host

import (
	"context"
	"runtime"
	"time"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/serving"
)

// Unload unloads a version by override.
func (h *Host) Unload(ctx context.Context, name string, number int64) error {
	return h.UnloadVersion(ctx, name, number, "test")
}

// serves returns the version that serves under a number.
func (h *Host) serves(name string, number int64) *serving.Version {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.versions[h.residency.Model(name).Versions[number].Resident.ID]
}

// Load returns the load of a device.
func (h *Host) Load(device string) float64 {
	return h.fleet.Load(h.fleet.Get(device))
}

// RowCost returns the device time that a row of a resident version took lately, on its first replica.
func (h *Host) RowCost(name string, number int64) time.Duration {
	return h.serves(name, number).Replicas()[0].RowCost()
}

// Demote takes a resident version out of batching.
func (h *Host) Demote(name string, number int64, why string) { h.Demoter(name, number)(why) }

// Demoter returns the function that a serving replica calls when it finds a reason to take its version out of batching.
func (h *Host) Demoter(name string, number int64) (demote func(why string)) {
	return h.serves(name, number).Replicas()[0].Demote
}

// Tuning reports whether the settings of a resident version are being changed.
func (h *Host) Tuning(name string, number int64) bool {
	return h.serves(name, number).Tuning()
}

// Changed returns a channel that is closed when the published state of a model changes.
func (h *Host) Changed(name string) <-chan struct{} { return owner{h}.Changed(name) }

// Locked reports whether one of the host's locks that are not leaves is held for long: since the caller holds it up,
// for instance.
func (h *Host) Locked() bool {
	locked := func() bool {
		free := h.mu.TryLock()
		if free {
			h.mu.Unlock()
		}
		return !free
	}
	for _, held := range []func() bool{locked, h.serving.Locked} {
		for tries := 100_000; held(); tries-- { // others hold it for a moment
			if tries == 0 {
				return true
			}
			runtime.Gosched()
		}
	}
	return false
}

// FillAudits takes the memory for audits except for so much. rest gives it back, and returns how much audits hold.
func (h *Host) FillAudits(but int64) (taken int64, rest func() int64) {
	m := h.serving.AuditMemory()
	taken = audit.MemoryLimit - but
	if !m.Reserve(taken) {
		panic("there is no room")
	}
	return taken, func() int64 {
		m.Release(taken)
		return m.Held()
	}
}

// Auditing returns the memory that audits hold, in bytes.
func (h *Host) Auditing() int64 { return h.serving.AuditMemory().Held() }

// Known returns how many versions and replicas the host remembers beyond the published ones.
func (h *Host) Known() (versions, replicas int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions, replicas = len(h.versions), len(h.replicas)
	for _, faces := range h.faces {
		for _, f := range faces {
			if f.resident != nil {
				versions, replicas = versions-1, replicas-len(f.resident.Replicas())
			}
		}
	}
	return versions, replicas
}
