package host

import (
	"context"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/serving"
)

// Predict runs the call on the replica that is expected to answer first, and fills in Results and Outcome. It returns
// only when nothing reads call.Inputs any more. The error is a *catalog.ModelError, a *tensor.TooLargeError,
// catalog.ErrNotReady, catalog.ErrUntried, catalog.ErrNotOpen or catalog.ErrDeviceLost, wrapped, the error that the
// scheduler ends a task with, or the cause of ctx. ErrNotReady comes before anything was answered: the caller may
// choose another version from a newer snapshot. What is tried before the call ends with an error is a table of package
// serving (attempt.go).
func (h *Host) Predict(ctx context.Context, call *catalog.Call) error {
	a := h.serving.Begin(call)
	return a.Run(ctx)
}

// Find implements serving.Owner. It returns the version behind a published one if that still takes requests. If not, it
// returns the version in its place under its number, provided that it takes the same requests: the call was checked by
// the signature of the first. It reads only the published snapshot, so that a call takes no lock.
func (o owner) Find(v *catalog.Version) (now *serving.Version, comes bool) {
	if own, _ := v.Resident.(*serving.Version); own != nil && own.Ready.Load() {
		return own, false
	}
	m := o.Snapshot().Model(v.Model)
	if m == nil {
		return nil, false
	}
	public := m.Version(v.Number)
	if public == nil || public.State != catalog.Ready || !public.Signature.Same(v.Signature) {
		return nil, public != nil && public.State == catalog.Loading
	}
	now, _ = public.Resident.(*serving.Version)
	return now, false
}
