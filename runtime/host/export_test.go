package host

import "context"

// Unload unloads a version whoever still wants it.
func (h *Host) Unload(ctx context.Context, name string, number int64) error {
	return h.unload(ctx, name, number, func(*model, *entry) error { return nil }, nil)
}
