package host

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

const (
	// loadTick is how often the load of the devices and versions is measured. placement.Scaler counts these as seconds.
	loadTick = time.Second
	// lookAboveEvery is how often better devices are asked for room. It asks drivers, and models are big: room does not
	// come and go within seconds.
	lookAboveEvery = 5 * time.Second
)

// watchLoad begins to measure the load of the devices, and to look for room on better ones, until the host is closed.
// It is started with the first version that may be on several devices: where each version has one device, there is
// nothing to decide.
func (h *Host) watchLoad() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watching || h.closed {
		return
	}
	h.watching = true
	// Device time that was asked for since the host was made would count as that of the first second.
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

// every calls look at each tick until the host is closed, with the time that has really passed since the call before: a
// busy machine may leave out ticks.
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

// scale reports to residency how each version fared in the time that passed, if its number of replicas depends on that.
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

// residentLocked returns residency's resident of a version; nil if another one, or none, has its place by now. The
// caller holds Host.mu.
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

// grow carries out residency.Grow: it gives a version one more replica, on a device of the same rank. It always ends
// with residency.Grown, with neither replica nor error if it was interrupted.
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

// shrink carries out residency.Shrink: it chooses the replica that a version can spare, by the load of the devices.
// residency then retires that.
func (h *Host) shrink(e residency.Shrink, all []*serving.Replica) {
	loads := make([]float64, len(all))
	for i, r := range all {
		loads[i] = h.fleet.Load(r.Device)
	}
	h.step(residency.Shrunk{Model: e.Model, Number: e.Number, Replica: all[placement.Excess(loads)].Key})
}
