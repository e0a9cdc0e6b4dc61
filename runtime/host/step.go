package host

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// step takes an event into the state machine and begins its effects: it publishes at once, and starts each other effect
// in a goroutine of its own. The caller does not hold Host.mu.
func (h *Host) step(e residency.Event) {
	h.mu.Lock()
	rest := h.stepLocked(e)
	h.mu.Unlock()
	rest()
}

// stepLocked is step for a caller that holds Host.mu, and calls rest once it has released it. rest logs, keeps
// decisions and calls OnChange, which must not be done with the lock held. Until rest has ended, callers of Settled
// wait: when they return, everything was logged.
func (h *Host) stepLocked(e residency.Event) (rest func()) {
	effects := h.residency.Step(time.Now(), e)
	var later []func()
	published := false
	for _, effect := range effects {
		switch e := effect.(type) {
		case residency.Publish:
			h.publish(e.Models)
			published = true
		case residency.Log:
			later = append(later, func() {
				h.log.Log(h.stop, e.Level, e.Message, e.Attrs...) //nolint:sloglint // of the few there
			})
		case residency.Keep:
			later = append(later, func() { _ = h.keepDecision(e.Model, e.After) }) // it is logged
		case residency.Abandon:
			r := h.replicas[e.Replica]
			r.GiveMemory() // at once: the next effect may be a load that needs it
			later = append(later, r.Abandon, h.memoryFreed)
		default:
			h.begin(effect)
		}
	}
	h.telling++
	return func() {
		for _, do := range later {
			do()
		}
		if published {
			h.notify()
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.telling--
		h.tellSettled()
	}
}

// begin starts an effect in the background. What it needs of the host's tables is looked up here, because the caller
// holds Host.mu.
func (h *Host) begin(effect residency.Effect) {
	switch e := effect.(type) {
	case residency.Load:
		before := h.versions[e.Replaces]
		h.spawnOpening(e.Of.Model, e.Of.Version.Number, func(ctx context.Context) { h.load(ctx, e, before) })
	case residency.Reconfigure:
		v := h.versions[e.Resident]
		h.spawn(func() { h.reconfigure(h.stop, e, v) })
	case residency.Upgrade:
		v, from := h.versions[e.Resident], h.replicas[e.From]
		h.spawnOpening(e.Of.Model, e.Of.Version.Number, func(ctx context.Context) { h.upgrade(ctx, e, v, from) })
	case residency.Grow:
		v := h.versions[e.Resident]
		h.spawnOpening(e.Of.Model, e.Of.Version.Number, func(ctx context.Context) { h.grow(ctx, e, v) })
	case residency.Shrink:
		all := h.replicasOf(e.Replicas)
		h.spawn(func() { h.shrink(e, all) })
	case residency.Drain:
		ctx, all := h.drains, h.byKey(e.Replicas)
		h.spawn(func() { h.drainVersion(ctx, e, all) })
	case residency.Retire:
		ctx, r, finish := h.drains, h.replicas[e.Replica], h.finish
		if h.closing != nil {
			finish = h.finishNow
		}
		h.spawn(func() { finish(ctx, r) })
	case residency.AskBusy:
		h.spawn(func() {
			h.step(residency.BusyAnswered{Model: e.Model, Number: e.Number, LastUse: h.lastUse(e.Model, e.Number)})
		})
	case residency.WakeAt:
		time.AfterFunc(time.Until(e.At), func() { h.step(residency.Tick{Model: e.Model}) })
	}
}

// spawn runs something in a goroutine that Close waits for; nothing once Close has begun, except what closeAll starts.
// The caller holds Host.mu.
func (h *Host) spawn(do func()) {
	if h.start != nil {
		h.start(do)
	}
}

// inBackground is spawn for callers that do not hold Host.mu.
func (h *Host) inBackground(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spawn(do)
}

// enlist enters a replica into the table by which effects of residency name it. It takes Host.mu.
func (h *Host) enlist(r *serving.Replica) residency.Replica {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replicas[r.Key] = r
	return residency.Replica{ID: r.Key, Device: r.Device.ID()}
}

// replicasOf returns the replicas that residency refers to. The caller holds Host.mu.
func (h *Host) replicasOf(all []residency.Replica) (list []*serving.Replica) {
	for _, r := range all {
		list = append(list, h.replicas[r.ID])
	}
	return list
}

// byKey is replicasOf for keys. The caller holds Host.mu.
func (h *Host) byKey(keys []residency.ReplicaID) (list []*serving.Replica) {
	for _, k := range keys {
		list = append(list, h.replicas[k])
	}
	return list
}

// discard gives up a replica that was made ready and is not needed any more. residency then retires it.
func (h *Host) discard(all ...*serving.Replica) {
	for _, r := range all {
		h.step(residency.Discarded{Replica: h.enlist(r)})
	}
}

// settling is what callers of Settled or Started wait for in a model: that nothing is running any more, or nothing but
// slow loads.
type settling struct {
	model   string
	butSlow bool
}

// tellSettled wakes the callers that wait for models in which nothing is running any more, but not before everything
// was logged and reported to OnChange. The caller holds Host.mu.
func (h *Host) tellSettled() {
	if h.telling > 0 {
		return
	}
	for until, settled := range h.settling {
		if m := h.residency.Model(until.model); m == nil || m.Converged() || until.butSlow && h.loadings.slow(until.model) {
			close(settled)
			delete(h.settling, until)
		}
	}
}
