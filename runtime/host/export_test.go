package host

import (
	"context"
	"runtime"

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

// Demote takes a resident version out of batching.
func (h *Host) Demote(name string, number int64, why string) {
	h.serves(name, number).Replicas()[0].Demote(why)
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
