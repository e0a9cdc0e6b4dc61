package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// checkCommand is `weft check`. It prints what was set and how each version is served, and on the error stream each fault. With
// --log-level debug it prints defaults too, and what the log says meanwhile.
type checkCommand struct {
	settings
	NoLoad bool `name:"no-load" help:"Read only; do not load the models and prove whether they can be batched."`
}

// Run checks. Faults of one thing do not keep the others from being looked at.
func (c *checkCommand) Run(s streams) error {
	r := &report{streams: s, defaults: c.LogLevel == "debug"}
	wrong := c.check()
	if wrong != nil {
		r.fault(wrong)
	}
	r.section("server", &c.Server, config.DefaultServer())
	repository, err := modelrepo.Open(c.Repositories...)
	if err != nil {
		r.fault(err)
		return r.verdict()
	}
	listing := repository.Scan()
	r.listing(&listing)
	if wrong != nil {
		return r.verdict() // it would be another server that is tried
	}
	present, err := c.devices(r)
	if err != nil {
		return err
	}
	if unused := unusedGPUs(&c.Server, listing); unused != "" {
		r.note(unused)
	}
	if !c.NoLoad {
		if err := c.load(r, listing, present); err != nil {
			return err
		}
	}
	return r.verdict()
}

// devices reports which of the GPUs that were asked for are not there, as far as the driver tells.
func (c *checkCommand) devices(r *report) (presence, error) {
	gpus := watchGPUs(&c.Server, gpuStandIns{}, nil, slog.New(slog.DiscardHandler)) // it is not run: it hears of no loss
	present := findDevices(&c.Server, gpus)
	for _, name := range slices.Sorted(maps.Keys(present.absent)) {
		r.fault(present.absent[name])
	}
	for _, name := range slices.Sorted(maps.Keys(present.unknown)) {
		r.note(present.unknown[name].Error())
	}
	if gpus == nil || gpus.close == nil {
		return present, nil
	}
	return present, gpus.close()
}

// load loads the models as `weft serve` would, and reports what came of it. The error is an interruption.
func (c *checkCommand) load(r *report, listing modelrepo.Listing, present presence) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)         // a load may take its time to end; a further signal does not wait for it
	log := slog.New(slog.DiscardHandler) // the report has what the log would say
	if c.LogLevel == "debug" {
		log = newLogger(r.err, &c.Server, new(slog.LevelVar))
	}
	h, err := newHouse(&c.Server, log, surroundings{tryOnce: true})
	if err != nil {
		return err
	}
	present.loseAbsent(h.models)
	if err := h.library.loadFor(listing); err != nil {
		r.fault(err)
	} else if err := h.models.Reconcile(ctx, listing); err != nil {
		return err
	} else {
		r.versions(listing, h.models.Snapshot(), h.scheduler.State())
		r.tolerances(listing, h.models.Snapshot())
	}
	return h.close(ctx)
}
