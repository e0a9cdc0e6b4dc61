package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// watchPart keeps what is served in line with the repositories, from the end of the first load on.
func watchPart(r *modelrepo.Repository, interval time.Duration, h *house, log *slog.Logger) lifecycle.Part {
	return untilStopped("repository watch", func(ctx context.Context) error {
		return r.Watch(ctx, modelrepo.WatchConfig{Interval: interval, Logger: log}, func(l modelrepo.Listing) { h.follow(ctx, l, log) })
	})
}

// untilStopped is a part that runs until its context ends.
func untilStopped(name string, run func(context.Context) error) lifecycle.Part {
	ctx, stop := context.WithCancel(context.Background())
	return lifecycle.Part{
		Name: name,
		Run:  func() error { return run(ctx) },
		Stop: func(context.Context) error {
			stop()
			return nil
		},
	}
}

// follow brings what is served in line with a listing.
func (h *house) follow(ctx context.Context, l modelrepo.Listing, log *slog.Logger) {
	if err := h.library.loadFor(l); err != nil {
		log.Error("models that need ONNX Runtime cannot be loaded", "cause", err)
	}
	if err := h.models.Reconcile(ctx, l); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("the repository changed, and not all of it could be followed", "cause", err)
	}
}
