package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
)

// parallelOpens is how many versions are opened at once, and parallelProofs how many are proven and warmed up: opening takes disk and
// all cores, a proof only waits for its turns on the device, which may take long beside others.
const (
	parallelOpens  = 2
	parallelProofs = 8
)

// load brings one version from loading to ready or failed. Where there is one that serves under the number, it takes that one's
// place. The caller has the model's turn.
func (h *Host) load(ctx context.Context, c candidate) {
	before := h.beginLoad(c)
	h.mu.Lock()
	v := newVersion(c, before)
	if d := h.models[c.model].versions[c.version.Number].demotion; d != nil && before == nil && d.covers(c) {
		v.demoted.Store(&d.why) // its devices were lost, which is no reason to trust it again
	}
	h.mu.Unlock()
	r, err := h.place(ctx, c, v, before)
	if err != nil {
		h.fail(ctx, c, err)
		return
	}
	v.change([]*replica{r})
	if before != nil {
		h.fillUp(ctx, c, v, before)
	}
	h.publishReady(c, v)
	_ = h.keepByHand(c.model, c.version.Number) // whoever asked may be gone; if not, they try again and are told
	if before != nil {
		h.log.Info("a model version was replaced by what lies under its number now", "model", c.model, "version", c.version.Number, "path", c.path())
		before.ready.Store(false)
		h.retireLater(before.list()...)
	}
}

// fillUp gives a version that takes another's place as many replicas as that has, lest what they answered together be too much for
// one. What cannot be had now is left for later.
func (h *Host) fillUp(ctx context.Context, c candidate, v, before *version) {
	for len(v.list()) < min(v.wants(), len(before.list())) {
		r, err := h.place(ctx, c, v, before)
		if err != nil {
			return
		}
		v.change(append(slices.Clip(v.list()), r))
	}
}

// hold waits for one of the slots, until release gives it back. Where ctx ends first there is none, and whatever is done next fails.
func hold(ctx context.Context, slots chan struct{}) (release func()) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }
	case <-ctx.Done():
		return func() {}
	}
}

// beginLoad publishes that a version is being loaded, and returns the one that serves under its number; nil if there is none.
func (h *Host) beginLoad(c candidate) (before *version) {
	h.update(c.model, func() bool {
		m := h.models[c.model]
		e := m.versions[c.version.Number]
		if e == nil {
			e = &entry{}
			m.versions[c.version.Number] = e
		}
		e.loading, e.kept = true, ""
		e.failure.stop()
		if e.resident == nil {
			e.public = c.announced()
		}
		before = e.resident
		return true
	})
	return before
}

// admit decides how a replica is served, adds it to the scheduler, and proves and warms it up. After an error it is out of the
// scheduler. It replaces another one on its device, or none.
func (h *Host) admit(ctx context.Context, c candidate, r, replaces *replica) (err error) {
	start := time.Now()
	r.said = r.opened.Session.Signature().Clone()
	r.said.Notes = append(r.said.Notes, r.opened.Notes...)
	d, err := r.decide(c)
	if err != nil {
		return err
	}
	r.unit.Follow(execution.NewPlan(d.Signature, time.Duration(c.manifest.Batching.MaxBatchCost)))
	if err := h.enroll(c, r, replaces); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.dismiss(r)
		}
	}()
	found, err := h.prove(ctx, c, r, d)
	if err != nil {
		return err
	}
	if err := h.tune(r, r.unit.Plan(), settings(c.manifest, r.verdict)); err != nil {
		return err
	}
	judged := r.judged(c.manifest)
	if others := r.version.list(); len(others) > 0 && !sameCalls(others[0].signature, d.Signature) {
		return fmt.Errorf("%s: on %s it takes or gives other tensors than on %s", c.path(), r.device.name, others[0].device.name)
	}
	r.seats.Add(1)
	r.sessions.Add(1)
	level := slog.LevelInfo
	if d.Against == "" && (!judged.Batched || !judged.Padded && d.HasLengths()) {
		level = slog.LevelWarn // the manifest and the model's declaration would have allowed it
	}
	h.log.Log(ctx, level, "a model version is ready", "model", r.model, "version", r.number, "device", r.opened.Device,
		"provider", r.opened.Provider, "batched", judged.Batched && judged.Most > 1, "proof", judged.Proof, "reason", judged.Reason, "obstacle", judged.Obstacle,
		"warm_up", found.Spent.Round(time.Microsecond), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// decide returns along which dimensions the manifest has the replica's rows joined.
func (r *replica) decide(c candidate) (*proof.Decision, error) {
	d, err := proof.Decide(r.said.Clone(), &c.manifest.Batching)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.path(), err)
	}
	return d, nil
}

// prove proves a replica that is in the scheduler, and warms it up. It sets its plan, its verdict and what it is to be published with.
func (h *Host) prove(ctx context.Context, c candidate, r *replica, d *proof.Decision) (*proof.Found, error) {
	s := &proof.Subject{
		Model: r.model, Version: r.number, Device: r.device.name, Path: c.version.Path,
		Batching: &c.manifest.Batching, Log: h.log,
	}
	if c.manifest.Synth != nil {
		s.Path = ""
	}
	found, err := proof.Prove(ctx, newRunner(h, r), s, d)
	if err == nil {
		plan := planOf(found.Signature, found.Verdict, s.Batching)
		plan.Trims = found.Trims
		r.signature, r.bare, r.verdict = found.Signature, found.Bare, found.Verdict
		r.unit.Follow(plan)
		err = found.WarmUp(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: warm-up: %w", c.path(), err)
	}
	return found, nil
}

// publishReady publishes a version that was loaded, in the place of what serves under its number if there is something.
func (h *Host) publishReady(c candidate, v *version) {
	v.ready.Store(true)
	h.counts.loads.Add(1)
	h.updateVersion(v.model, v.number, func(e *entry, public *catalog.Version) {
		first := v.list()[0]
		e.resident, e.loading, e.failure = v, false, nil
		if v.demoted.Load() == nil {
			e.demotion = nil
		}
		public.State, public.Cause, public.Fault, public.Path = catalog.Ready, "", nil, c.path()
		public.Signature = first.shown()
		describe(public, c.manifest, first.judged(c.manifest))
		v.publish(public)
		public.LoadedAt = time.Now()
	})
	h.leaveLost(v)
	if m := h.Snapshot().Model(v.model); m != nil && m.Traffic != nil {
		if err := m.Traffic.CheckOutputs(m); err != nil {
			h.log.Warn("a shadow cannot be compared as the traffic says", "model", v.model, "cause", err)
		}
	}
}
