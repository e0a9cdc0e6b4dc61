package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// maxSettle is how long the files of a version that came or changed while the server runs must not change before they
// count as complete. A watch with a shorter interval waits only that interval.
const maxSettle = 3 * time.Second

// watchPart keeps the served models in line with the repositories. latest is the listing that the models follow
// already. A value on ask has the repositories listed at once, and is the interval from then on. settle is how long
// files must not change at the start, 0 for a second.
func watchPart(r *modelrepo.Repository, latest modelrepo.Listing, interval, settle time.Duration,
	ask <-chan time.Duration, h *house, log *slog.Logger,
) lifecycle.Part {
	return untilStopped("repository watch", func(ctx context.Context) error {
		return r.Watch(ctx, modelrepo.WatchConfig{
			// The interval is 0 where repositories are listed on SIGHUP only.
			Interval: interval, Ask: ask, Settle: settle, SettleLater: maxSettle, Logger: log,
		},
			func(l modelrepo.Listing) {
				tellOddities(l, latest, log)
				latest = l
				h.follow(l, log)
			})
	})
}

// untilStopped returns a part whose Stop ends the context of run. Stop does not wait: lifecycle waits for Run.
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

// follow makes the served models follow a listing. It does not wait for loads, so that a long one does not hold up the
// next listing. Without the library models that need it fail one by one, and the others are served.
func (h *house) follow(l modelrepo.Listing, log *slog.Logger) {
	if err := h.library.check(l); err != nil {
		log.Error("ONNX Runtime unavailable", "event", "onnxruntime_unavailable",
			"effect", "models that need it cannot be loaded", "cause", err)
	}
	h.models.Follow(l)
}
