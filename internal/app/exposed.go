package app

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// exposedEvery is how often the scheduler is asked for targets that cannot be kept. It forgets demand after ten
	// seconds, so that none is overlooked; to copy its state takes much less than a batch.
	exposedEvery = 5 * time.Second
	// exposedAgain is how long the same two flows are not named again.
	exposedAgain = time.Hour
)

// exposures reports targets that no order of the queues can keep: their callers would miss them now and then, and see
// no cause.
type exposures struct {
	log  *slog.Logger
	told map[[2]string]time.Time // by the names of the two flows; forgotten after exposedAgain
}

// exposedPart looks at the scheduler's state until it is stopped.
func exposedPart(state func() sharedsched.State, log *slog.Logger) lifecycle.Part {
	return untilStopped("look at targets", func(ctx context.Context) error {
		e := exposures{log, map[[2]string]time.Time{}}
		ticker := time.NewTicker(exposedEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-ticker.C:
				e.look(now, state().Devices)
			}
		}
	})
}

// look logs the targets that the scheduler has found, each pair of flows once in a while.
func (e *exposures) look(now time.Time, devices []sharedsched.DeviceState) {
	maps.DeleteFunc(e.told, func(_ [2]string, at time.Time) bool { return now.Sub(at) >= exposedAgain })
	for i := range devices {
		found := &devices[i].Exposed
		pair := [2]string{found.Flow, found.Beside}
		if _, told := e.told[pair]; told || found.Flow == "" {
			continue
		}
		e.told[pair] = now
		e.log.Warn("target cannot be kept beside another flow's batches", "event", "target_unattainable",
			"device", devices[i].Name, "flow", found.Flow, "target", found.Target, "beside", found.Beside,
			"batch", found.Batch, "repeats", "not logged for an hour")
	}
}
