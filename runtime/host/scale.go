package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
)

const (
	// loadTick is how often the load of the devices is looked at.
	loadTick = time.Second
	// scarceFor is after what time a further replica is tried again that could not be had.
	scarceFor = time.Minute
)

// watchLoad looks at the load of the devices, and for room on better ones, until the host is closed. It is started with the first version
// that may be on several.
func (h *Host) watchLoad() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watching || h.closed {
		return
	}
	h.watching = true
	h.fleet.forget()
	h.loads.Go(func() {
		h.every(loadTick, func(passed time.Duration) {
			h.fleet.tick(passed)
			h.scale(passed)
		})
	})
	h.loads.Go(func() { // by itself, since a driver may take its time
		h.every(lookAboveEvery, func(time.Duration) { h.lookAbove() })
	})
}

// every has something looked at again and again until the host is closed, and tells it what time passed since the look before.
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

// scale decides for each version how many replicas its load in the time that passed asks for, and has those added that are due.
func (h *Host) scale(passed time.Duration) {
	for _, v := range h.residents() {
		h.mu.Lock()
		watched := v.settings.Replicas == modelrepo.AutoReplicas || v.scarce != ""
		h.mu.Unlock()
		if !watched {
			continue
		}
		f, further := v.fare(passed), false
		if sites, err := h.sites(v.from); err == nil {
			f.Spare, further = h.fleet.spare(v, sites)
		}
		h.mu.Lock()
		change, due, over := v.rescale(f, further)
		to := v.auto
		h.mu.Unlock()
		if over {
			h.republish(v, func() bool {
				v.scarce = ""
				return true
			})
		}
		if change != 0 {
			h.log.Info("the load of a model version asks for another number of replicas", "model", v.model, "version", v.number,
				"from", f.Replicas, "to", to, "refused", f.Refused, "waiting", f.Waiting.Round(time.Millisecond), "used", fmt.Sprintf("%.2f", f.Used))
		}
		if due {
			h.settleLater(v.model)
		}
	}
}

// rescale takes in how the version fared, and whether there is a further device for it. It reports by how many its replicas are to
// change, whether there is something to do, and whether a further replica that could not be had is not wanted any more. How busy the
// further device is matters only where the load asks: a number in a manifest is meant as it is. The caller holds Host.mu.
func (v *version) rescale(f placement.Fare, further bool) (change int, due, over bool) {
	if !v.ready.Load() || f.Replicas == 0 || time.Now().Before(v.until) {
		return 0, false, false
	}
	if v.settings.Replicas == modelrepo.AutoReplicas {
		change = v.scaler.Tick(f)
		v.auto = max(1, v.auto+change)
		over = v.scarce != "" && change == 0 && !v.scaler.Hot()
	}
	if due = change != 0 || v.scarce != "" && f.Replicas < v.wants() && further; due {
		v.scarce = ""
	}
	return change, due, over
}

// republish publishes a version again after a change of what is known of it, unless it is not resident any more, or change says that
// there is nothing to publish.
func (h *Host) republish(v *version, change func() bool) {
	h.update(v.model, func() bool {
		m := h.models[v.model]
		if m == nil || m.versions[v.number] == nil || m.versions[v.number].resident != v {
			return false
		}
		if !change() {
			return false
		}
		e := m.versions[v.number]
		next := *e.public
		v.publish(&next)
		e.public = &next
		return true
	})
}

// fare returns how the version fared since the latest call, in the time that passed.
func (v *version) fare(passed time.Duration) placement.Fare {
	f := placement.Fare{Waiting: v.waiting()}
	for _, r := range v.list() {
		f.Replicas++
		f.Refused += int(r.refused.Swap(0))
		f.Used += float64(r.used.Swap(0)) / float64(passed)
	}
	return f
}

// spare returns the part of its time that the least loaded device has left which could get a further replica of the version: one of
// the rank that its replicas have; and whether there is such a device.
func (f *fleet) spare(v *version, sites []Site) (most float64, further bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range peers(v, sites) {
		if d := f.getLocked(s.Device); d.lost.Load() == nil && v.on(d) == nil {
			most, further = max(most, 1-d.load), true
		}
	}
	return most, further
}

// peers returns the sites of the rank that the version's replicas have: what is only a last resort gets no further ones.
func peers(v *version, sites []Site) []Site {
	rank := 0
	if all := v.list(); len(all) > 0 {
		rank = rankOf(all[0].device.name, sites)
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s Site) bool { return s.Rank != rank })
}

// grow gives a version one more replica. The caller has the model's turn.
func (h *Host) grow(ctx context.Context, c candidate) {
	h.mu.Lock()
	v := h.models[c.model].versions[c.version.Number].resident
	h.mu.Unlock()
	if v == nil {
		return // its device was lost meanwhile
	}
	r, err := h.place(ctx, c, v, nil)
	if ctx.Err() != nil && err != nil {
		return
	}
	published, known := false, false
	h.updateVersion(c.model, c.version.Number, func(e *entry, public *catalog.Version) {
		if err != nil {
			known = v.noted == err.Error()
			v.noted = err.Error()
			v.scarce, v.until = fmt.Sprintf("%d of %d replicas: %v", len(v.list()), v.wants(), err), time.Now().Add(scarceFor)
			v.auto = max(1, len(v.list()))
		} else if e.resident == v {
			v.change(append(slices.Clip(v.list()), r))
			published = true
		}
		if e.resident == v {
			v.publish(public)
		}
	})
	switch {
	case known:
	case err != nil:
		h.log.Warn("a model version gets no further replica", "model", c.model, "version", c.version.Number, "cause", err)
	case published:
		h.leaveLost(v)
	default:
		h.retireLater(r)
	}
}

// shrink takes away one of a version's replicas. The caller has the model's turn.
func (h *Host) shrink(c candidate) {
	var out *replica
	h.update(c.model, func() bool {
		e := h.models[c.model].versions[c.version.Number]
		if e.resident == nil || len(e.resident.list()) <= e.resident.wants() {
			return false
		}
		out = h.fleet.excess(e.resident.list())
		e.leave(out)
		return true
	})
	if out != nil {
		h.log.Info("a replica of a model version is taken away", "model", c.model, "version", c.version.Number, "device", out.device.name)
		h.retireLater(out)
	}
}

// excess returns the replica that is to be taken away.
func (f *fleet) excess(all []*replica) *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	loads := make([]float64, len(all))
	for i, r := range all {
		loads[i] = r.device.load
	}
	return all[placement.Excess(loads)]
}
