package host

import "context"

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
