package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// checkCommand is `weft check`. It prints what is in force, and on the error stream each fault.
type checkCommand struct {
	settings
	NoLoad bool `name:"no-load" help:"Read only; do not load the models and prove whether they can be batched."`
}

// Run checks. Faults of one thing do not keep the others from being looked at.
func (c *checkCommand) Run(s streams) error {
	r := &report{streams: s}
	wrong := c.check()
	if wrong != nil {
		r.fault(wrong)
	}
	r.section("server", &c.Server)
	repository, err := modelrepo.Open(c.Repositories...)
	if err != nil {
		r.fault(err)
		return r.verdict()
	}
	listing := repository.Scan()
	r.listing(&listing)
	// With settings that are wrong it would be another server that is tried.
	if !c.NoLoad && wrong == nil {
		if err := c.load(r, listing); err != nil {
			return err
		}
	}
	return r.verdict()
}

// load loads the models as `weft serve` would, and reports what came of it. The error is an interruption.
func (c *checkCommand) load(r *report, listing modelrepo.Listing) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)         // a load may take its time to end; a further signal does not wait for it
	log := slog.New(slog.DiscardHandler) // the report has what the log would say
	if c.LogLevel == "debug" {
		log = newLogger(r.err, &c.Server)
	}
	h, err := newHouse(&c.Server, log, surroundings{tryOnce: true})
	if err != nil {
		return err
	}
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
