package host

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

const (
	// loadTick is how often the load of the devices is looked at.
	loadTick = time.Second
	// lookAboveEvery is how often it is looked whether a better device has room.
	lookAboveEvery = 5 * time.Second
)

// watchLoad looks at the load of the devices, and for room on better ones, until the host is closed. It is started with
// the first version that may be on several.
func (h *Host) watchLoad() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watching || h.closed {
		return
	}
	h.watching = true
	h.fleet.Forget()
	h.loads.Go(func() {
		h.every(loadTick, func(passed time.Duration) {
			h.fleet.Tick(passed)
			h.scale(passed)
		})
	})
	h.loads.Go(func() { // by itself, since a driver may take its time
		h.every(lookAboveEvery, func(time.Duration) { h.lookAbove() })
	})
}

// every calls look again and again until the host is closed, with the time that passed since the call before.
func (h *Host) every(tick time.Duration, look func(passed time.Duration)) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	latest := time.Now()
	for {
		select {
		case <-ticker.C:
			now := time.Now()
			look(now.Sub(latest))
			latest = now
		case <-h.stop.Done():
			return
		}
	}
}

// scale reports to residency how each version whose replicas depend on that fared in the time that passed.
func (h *Host) scale(passed time.Duration) {
	for _, v := range h.residents() {
		h.mu.Lock()
		r := h.residentLocked(v)
		watched := r != nil && r.Watched()
		var further []string
		if watched {
			further = r.Further()
		}
		h.mu.Unlock()
		if !watched {
			continue
		}
		e := residency.Fared{Model: v.Model, Number: v.Number, Resident: v.ID, Fare: v.Fare(passed)}
		e.Fare.Spare, e.Further = h.fleet.Spare(further)
		h.step(e)
	}
}

// residentLocked returns residency's resident of a version that serves; nil if it does not. The caller holds Host.mu.
func (h *Host) residentLocked(v *serving.Version) *residency.Resident {
	m := h.residency.Model(v.Model)
	if m == nil || m.Versions[v.Number] == nil {
		return nil
	}
	r := m.Versions[v.Number].Resident
	if r == nil || r.ID != v.ID {
		return nil
	}
	return r
}

// grow gives a version one more replica.
func (h *Host) grow(ctx context.Context, e residency.Grow, v *serving.Version) {
	done := residency.Grown{Grow: e}
	r, _, err := h.place(ctx, e.Of, v, nil)
	switch {
	case err == nil:
		to := h.enlist(r)
		done.Replica = &to
	case ctx.Err() == nil:
		done.Err = err
	}
	h.step(done)
}

// shrink chooses the replica that a version can spare.
func (h *Host) shrink(e residency.Shrink, all []*serving.Replica) {
	loads := make([]float64, len(all))
	for i, r := range all {
		loads[i] = h.fleet.Load(r.Device)
	}
	h.step(residency.Shrunk{Model: e.Model, Number: e.Number, Replica: all[placement.Excess(loads)].Key})
}
