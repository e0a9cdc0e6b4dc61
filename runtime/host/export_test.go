package host

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Unload unloads a version by hand.
func (h *Host) Unload(ctx context.Context, name string, number int64) error {
	return h.UnloadVersion(ctx, name, number, "test")
}

// serving returns the version that serves under a number.
func (h *Host) serving(name string, number int64) *version {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.versions[h.residency.Model(name).Versions[number].Resident.ID]
}

// Load returns the load of a device.
func (h *Host) Load(device string) float64 {
	return h.fleet.Load(h.fleet.Get(device))
}

// RowCost returns what a row of a resident version took lately, on its first replica.
func (h *Host) RowCost(name string, number int64) time.Duration {
	return time.Duration(h.serving(name, number).list()[0].perRow.Load())
}

// Demote takes a resident version out of batching.
func (h *Host) Demote(name string, number int64, why string) { h.Demoter(name, number)(why) }

// Demoter returns what a replica that serves now calls when it finds a reason to take its version out of batching.
func (h *Host) Demoter(name string, number int64) (demote func(why string)) {
	r := h.serving(name, number).list()[0]
	return func(why string) { h.demote(r, why) }
}

// Tuning reports whether the settings of a resident version are being changed.
func (h *Host) Tuning(name string, number int64) bool {
	v := h.serving(name, number)
	free := v.tuning.TryLock()
	if free {
		v.tuning.Unlock()
	}
	return !free
}

// Changed returns a channel that is closed when what is published of a model changes.
func (h *Host) Changed(name string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changesLocked(name)
}

// Locked reports whether one of the host's locks that are not leaves is held for long: since the caller holds it up,
// for instance.
func (h *Host) Locked() bool {
	for _, mu := range []*sync.Mutex{&h.mu, &h.flows.mu} {
		free := false
		for range 100_000 { // others hold it for a moment
			if free = mu.TryLock(); free {
				mu.Unlock()
				break
			}
			runtime.Gosched()
		}
		if !free {
			return true
		}
	}
	return false
}

// FillAudits takes the memory for audits but for so much. rest gives it back, and returns what audits hold.
func (h *Host) FillAudits(but int64) (taken int64, rest func() int64) {
	taken = auditTotal - but
	h.auditing.Add(taken)
	return taken, func() int64 { return h.auditing.Add(-taken) }
}

// Auditing returns the memory that audits hold, in bytes.
func (h *Host) Auditing() int64 { return h.auditing.Load() }

// Known returns how many versions and replicas the host remembers beyond those that are published.
func (h *Host) Known() (versions, replicas int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions, replicas = len(h.versions), len(h.replicas)
	for _, faces := range h.faces {
		for _, f := range faces {
			if f.resident != nil {
				versions, replicas = versions-1, replicas-len(f.resident.list())
			}
		}
	}
	return versions, replicas
}
