package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
)

// parallelOpens is how many versions are opened at once, and parallelProofs how many are proven and warmed up: opening
// takes disk and all cores, a proof only waits for its turns on the device, which may take long beside others.
const (
	parallelOpens  = 2
	parallelProofs = 8
)

// load opens and proves a version, in the place of before, which serves under its number; nil if nothing does.
func (h *Host) load(ctx context.Context, e residency.Load, before *version) {
	c := e.Of
	v := newVersion(c, e.Resident)
	v.demoted.Store(e.Demoted)
	done := residency.Loaded{Load: e}
	r, err := h.place(ctx, c, v, before)
	if err != nil {
		done.Err, done.Interrupted = err, ctx.Err() != nil
		if !done.Interrupted {
			h.counts.failures.Add(1)
		}
		h.mu.Lock()
		done.Free = h.memory.Free() // not before, since what is freed in between would wake nobody
		rest := h.stepLocked(done)
		h.mu.Unlock()
		rest()
		return
	}
	v.change([]*replica{r})
	h.fillUp(ctx, c, v, before, e.Replicas)
	for _, r := range v.list() {
		done.Replicas = append(done.Replicas, h.enlist(r))
	}
	h.counts.loads.Add(1)
	done.Sites, _ = h.sites(c) // it had some a moment ago
	done.Wait, done.Demoted = v.wait, v.demoted.Load()
	h.mu.Lock()
	h.versions[v.id] = v
	rest := h.stepLocked(done)
	if h.residentLocked(v) == nil { // its devices were lost in the meantime
		delete(h.versions, v.id)
	}
	h.mu.Unlock()
	rest()
	_ = h.keepOverride(c.Model, c.Version.Number) // whoever asked may be gone; if not, they try again and are told
	if m := h.Snapshot().Model(v.model); m != nil && m.Traffic != nil {
		if err := m.Traffic.CheckOutputs(m); err != nil {
			h.log.Warn("a shadow cannot be compared as the traffic says", "model", v.model, "cause", err)
		}
	}
}

// fillUp gives a version that takes another's place up to so many replicas: what they answered together could be too
// much for one. What cannot be had now is left for later.
func (h *Host) fillUp(ctx context.Context, c residency.Candidate, v, before *version, replicas int) {
	for len(v.list()) < replicas {
		r, err := h.place(ctx, c, v, before)
		if err != nil {
			return
		}
		v.change(append(slices.Clip(v.list()), r))
	}
}

// hold waits for one of the slots, until release gives it back. Where ctx ends first there is none, and whatever is
// done next fails.
func hold(ctx context.Context, slots chan struct{}) (release func()) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }
	case <-ctx.Done():
		return func() {}
	}
}

// admit decides how a replica is served, adds it to the scheduler, and proves and warms it up. After an error it is out
// of the scheduler. It replaces another one on its device, or none.
func (h *Host) admit(ctx context.Context, c residency.Candidate, r, replaces *replica) (err error) {
	start := time.Now()
	r.said = r.opened.Session.Signature().Clone()
	r.said.Notes = append(r.said.Notes, r.opened.Notes...)
	d, err := r.decide(c)
	if err != nil {
		return err
	}
	r.unit.Follow(execution.NewPlan(d.Signature, time.Duration(c.Manifest.Batching.MaxBatchCost)))
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
	if err := h.tune(r, r.unit.Plan(), settings(c.Manifest, r.verdict)); err != nil {
		return err
	}
	judged := r.judged(c.Manifest)
	if others := r.version.list(); len(others) > 0 && !sameCalls(others[0].signature, d.Signature) {
		return fmt.Errorf("%s: on %s it takes or gives other tensors than on %s", c.Path(), r.device.Name,
			others[0].device.Name)
	}
	r.seats.Add(1)
	r.sessions.Add(1)
	level := slog.LevelInfo
	if d.Against == "" && (!judged.Batched || !judged.Padded && d.HasLengths()) {
		level = slog.LevelWarn // the manifest and the model's declaration would have allowed it
	}
	h.log.Log(ctx, level, "a model version is ready", "model", r.model, "version", r.number, "device", r.opened.Device,
		"provider", r.opened.Provider, "batched", judged.Batched && judged.Most > 1, "proof", judged.Proof,
		"reason", judged.Reason, "obstacle", judged.Obstacle,
		"warm_up", found.Spent.Round(time.Microsecond), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// decide returns along which dimensions the manifest has the replica's rows joined.
func (r *replica) decide(c residency.Candidate) (*proof.Decision, error) {
	d, err := proof.Decide(r.said.Clone(), &c.Manifest.Batching)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path(), err)
	}
	return d, nil
}

// prove proves a replica that is in the scheduler, and warms it up. It sets its plan, its verdict and what it is to be
// published with.
func (h *Host) prove(ctx context.Context, c residency.Candidate, r *replica, d *proof.Decision) (*proof.Found, error) {
	s := &proof.Subject{
		Model: r.model, Version: r.number, Device: r.device.Name, Path: c.Version.Path,
		Batching: &c.Manifest.Batching, Log: h.log,
	}
	if c.Manifest.Synth != nil {
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
		return nil, fmt.Errorf("%s: warm-up: %w", c.Path(), err)
	}
	return found, nil
}
