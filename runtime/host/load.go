package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
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
	release := hold(ctx, h.opening)
	v, err := h.open(ctx, c)
	release()
	if err == nil {
		release = hold(ctx, h.proving)
		if err = h.admit(ctx, c, v, before); err != nil {
			err = errors.Join(err, h.closeSession(v))
		}
		release()
	}
	switch {
	case err != nil:
		h.fail(ctx, c, err)
	case before != nil:
		h.log.Info("a model version was replaced by what lies under its number now", "model", c.model, "version", c.version.Number, "path", c.path())
		h.retireReplaced(before)
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
	h.update(func() bool {
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

// open opens the model in its engine.
func (h *Host) open(ctx context.Context, c candidate) (v *version, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: the engine panicked: %v", c.path(), p)
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	memory, err := h.memory.take(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if v == nil {
			h.memory.give(memory)
		}
	}()
	opened, err := h.cfg.Open(ctx, c.version, c.manifest)
	if err != nil {
		return nil, err
	}
	s := opened.Session.Signature()
	lanes := max(h.cfg.Lanes[opened.Device], 1)
	return &version{
		model: c.model, number: c.version.Number, opened: opened,
		buffers: &pool{inputs: len(s.Inputs), outputs: len(s.Outputs), most: lanes, pinner: opened.Pinner},
		from:    c, settings: c.manifest, memory: memory, seats: new(atomic.Int32),
	}, nil
}

// admit decides how the version is served, adds it to the scheduler, proves and warms it up, and publishes it as ready. After an
// error the version is out of the scheduler. It replaces another one of its number, or none.
func (h *Host) admit(ctx context.Context, c candidate, v, replaces *version) (err error) {
	start := time.Now()
	declared := v.opened.Session.Signature().Clone()
	declared.Notes = append(declared.Notes, v.opened.Notes...)
	batching := &c.manifest.Batching
	d, err := decide(declared, batching)
	if err != nil {
		return fmt.Errorf("%s: %w", c.path(), err)
	}
	if d.against != "" && !d.certain() {
		d.forgetRows()
	}
	v.plan.Store(newPlan(d.signature, verdict{}, time.Duration(batching.MaxBatchCost)))
	if err := h.enroll(c, v, replaces); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.dismiss(v)
		}
	}()

	t := h.newTrial(v, d, batching)
	judged, base, err := t.judge(ctx)
	if err == nil && len(d.variables) > 0 {
		judged, err = t.lengths(ctx, judged, base)
	}
	if err != nil {
		return fmt.Errorf("%s: warm-up: %w", c.path(), err)
	}
	forgot := !judged.batched && d.against == "" && !d.certain()
	if forgot {
		d.forgetRows()
	}
	d.declare(judged.padded)
	plan := newPlan(d.signature, judged, time.Duration(batching.MaxBatchCost))
	if judged.padded {
		plan.trims = d.trims
	}
	v.plan.Store(plan)
	if forgot {
		if err := t.repeat(ctx, base); err != nil {
			return fmt.Errorf("%s: warm-up: %w", c.path(), err)
		}
	}
	if err := h.sched.Configure(v.id, settings(c.manifest, judged)); err != nil {
		return err
	}
	d.explain(judged.padded)
	h.publishReady(c, v, d, judged)
	level := slog.LevelInfo
	if d.against == "" && (!judged.batched || !judged.padded && len(d.variables) > 0) {
		level = slog.LevelWarn // the manifest and the model's declaration would have allowed it
	}
	h.log.Log(ctx, level, "a model version is ready", "model", v.model, "version", v.number, "device", v.opened.Device,
		"provider", v.opened.Provider, "batched", judged.batched, "reason", judged.reason,
		"warm_up", t.spent.Round(time.Microsecond), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

func (h *Host) publishReady(c candidate, v *version, d *decision, judged verdict) {
	v.verdict = judged
	v.seats.Add(1)
	v.ready.Store(true)
	h.counts.loads.Add(1)
	h.updateVersion(v.model, v.number, func(e *entry, public *catalog.Version) {
		e.resident, e.loading, e.failure = v, false, nil
		public.State, public.Cause, public.Path = catalog.Ready, "", c.path()
		public.Signature = d.signature
		describe(public, c.manifest, judged)
		public.Device, public.Provider = v.opened.Device, v.opened.Provider
		public.Graphs = nil
		if g, has := v.opened.Session.(graphCounter); has {
			public.Graphs = g.Graphs
		}
		public.LoadedAt = time.Now()
		public.Scheduler = int32(v.id)
	})
	if m := h.Snapshot().Model(v.model); m != nil && m.Traffic != nil {
		if err := m.Traffic.CheckOutputs(m); err != nil {
			h.log.Warn("a shadow cannot be compared as the traffic says", "model", v.model, "cause", err)
		}
	}
}
