package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// parallelLoads is how many versions are loaded at once: reading one from disk overlaps proving another on the device.
const parallelLoads = 2

// Load makes every selected version of the listing resident and returns when each is ready or has failed. A version that cannot
// be loaded is published with its cause and logged; the others serve. Versions that are known already are left as they are,
// unless they failed. The error is the cause of ctx, or that the host is closed.
func (h *Host) Load(ctx context.Context, l modelrepo.Listing) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return errClosing
	}
	h.loads.Add(1)
	h.mu.Unlock()
	defer h.loads.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unhook := context.AfterFunc(h.stop, func() { cancel(context.Cause(h.stop)) })
	defer unhook()

	h.report(l)
	fresh := h.announce(l)
	var group errgroup.Group
	group.SetLimit(parallelLoads)
	for _, c := range fresh {
		group.Go(func() error {
			h.load(ctx, c)
			return nil
		})
	}
	_ = group.Wait() // a load that fails is published, not returned
	return context.Cause(ctx)
}

// load brings one version from loading to ready or failed.
func (h *Host) load(ctx context.Context, c candidate) {
	v, err := h.open(ctx, c)
	if err == nil {
		if err = h.admit(ctx, c, v); err != nil {
			err = errors.Join(err, h.closeSession(v))
		}
	}
	if err != nil {
		level := slog.LevelError
		if ctx.Err() != nil {
			level = slog.LevelInfo // nothing is wrong with the model
		}
		h.log.Log(ctx, level, "a model version cannot be loaded", "model", c.model, "version", c.version.Number, "path", c.path(), "cause", err)
		h.updateVersion(c.model, c.version.Number, func(e *entry, public *catalog.Version) {
			e.resident = nil
			public.State, public.Cause = catalog.Failed, err.Error()
		})
	}
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
	opened, err := h.cfg.Open(ctx, c.version, c.manifest)
	if err != nil {
		return nil, err
	}
	s := opened.Session.Signature()
	lanes := max(h.cfg.Lanes[opened.Device], 1)
	return &version{
		model: c.model, number: c.version.Number, opened: opened,
		buffers: pool{inputs: len(s.Inputs), outputs: len(s.Outputs), most: lanes},
	}, nil
}

// admit decides how the version is served, adds it to the scheduler, proves and warms it up, and publishes it as ready. After an
// error the version is out of the scheduler.
func (h *Host) admit(ctx context.Context, c candidate, v *version) (err error) {
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
	if err := h.enroll(c, v); err != nil {
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
	b := &c.manifest.Batching
	v.ready.Store(true)
	h.updateVersion(v.model, v.number, func(e *entry, public *catalog.Version) {
		e.resident = v
		public.State = catalog.Ready
		public.Signature = d.signature
		public.Batching = catalog.Batching{
			Batched: judged.batched, Reason: judged.reason, MaxDifference: judged.difference,
			MaxBatchSize: max(judged.most, 1), AllowedBatchSizes: judged.allowed,
			MaxRequestRows: requestRows(b, judged), MaxQueue: b.MaxQueue,
		}
		public.Device, public.Provider = v.opened.Device, v.opened.Provider
		public.LoadedAt = time.Now()
		public.Scheduler = int32(v.id)
	})
}
