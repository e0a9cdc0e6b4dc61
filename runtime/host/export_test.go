package host

import (
	"context"
	"time"
)

// Unload unloads a version whoever still wants it.
func (h *Host) Unload(ctx context.Context, name string, number int64) error {
	return h.unload(ctx, name, number, func(*model, *entry) error { return nil }, nil)
}

// Load returns the load of a device.
func (h *Host) Load(device string) float64 {
	d := h.fleet.get(device)
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	return d.load
}

// RowCost returns what a row of a resident version took lately, on its first replica.
func (h *Host) RowCost(name string, number int64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(h.models[name].versions[number].resident.list()[0].perRow.Load())
}

// Demote takes a resident version out of batching.
func (h *Host) Demote(name string, number int64, why string) {
	h.mu.Lock()
	v := h.models[name].versions[number].resident
	h.mu.Unlock()
	h.demote(v, why)
}

// Changed returns a channel that is closed when what is published of a model changes.
func (h *Host) Changed(name string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changesLocked(name)
}
