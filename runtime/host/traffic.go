package host

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// SetTraffic divides a model's traffic again, at once and as a whole, and returns the published traffic. Nil is the
// newest ready version for everything. Otherwise it is as Decide.
func (h *Host) SetTraffic(name string, t *catalog.Traffic, expected uint64) (public *catalog.Traffic, err error) {
	if t == nil {
		t = &catalog.Traffic{}
	}
	return h.Decide(name, catalog.Decision{Traffic: t, Expected: expected})
}

// Decide makes a decision about a model, and returns the traffic that is published then. The traffic's Source is
// "SetTraffic" if it is empty. It holds until the next one, or until the manifest says something else than before, and
// it outlives the process where there is a Config.Keeper. All versions that it names must be ready, but for shadows
// that were named before: they come back when they can, and must not keep anybody from moving traffic meanwhile. The
// error is catalog.ErrUnknown, wrapped, a *catalog.TrafficError, a *catalog.NotReadyError, a *catalog.RevisionError or
// a *catalog.KeepError. The decision may still concern the rollout of a model that is not there.
func (h *Host) Decide(name string, d catalog.Decision) (public *catalog.Traffic, err error) {
	now := time.Now().UTC()
	var next *catalog.Traffic
	if t := d.Traffic; t != nil {
		next = &catalog.Traffic{
			Source: cmp.Or(t.Source, "SetTraffic"), Split: slices.Clone(t.Split),
			Shadow: slices.Clone(t.Shadow), By: t.By, At: now,
		}
		if err := next.Check(); err != nil {
			return nil, err
		}
	}
	// plan is called with the locks held, so that the versions are ready when the decision is kept.
	plan := func(m *residency.Model) (decisions.Model, error) { return m.Decide(d, next, now) }
	if err := h.decide(name, next == nil, plan); err != nil {
		return nil, err
	}
	return next, nil
}

// SetLabel makes a label name a version, which must be ready; 0 removes the label. by names the caller. It applies at
// once, and outlives the process where there is a Config.Keeper. It holds until the manifest's entry for the label
// changes. The error is catalog.ErrUnknown, wrapped, a *catalog.NotReadyError, a *catalog.KeepError, or that the label
// cannot be one.
func (h *Host) SetLabel(name, label string, number int64, by string) error {
	if !modelrepo.ValidName(label) {
		return fmt.Errorf("%q cannot be a label: expected letters, digits, '.', '_' and '-', beginning with a letter "+
			"or digit", label)
	}
	return h.decide(name, false, func(m *residency.Model) (decisions.Model, error) {
		return m.Relabel(label, decisions.Label{Version: number, By: by, At: time.Now().UTC()})
	})
}
