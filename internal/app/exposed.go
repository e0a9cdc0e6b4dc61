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
	// exposedEvery is how often the scheduler's state is read. It must be less than the ten seconds after which the
	// scheduler forgets demand, so that nothing is overlooked. Copying the state takes much less than a batch.
	exposedEvery = 5 * time.Second
	// exposedAgain is how long a pair of flows that was logged is not logged again.
	exposedAgain = time.Hour
)

// exposures logs targets that no order of the queues can keep, because one row of another flow takes longer. Their
// callers would miss them now and then, and see no cause. Only the part's goroutine uses it.
type exposures struct {
	log  *slog.Logger
	told map[[2]string]time.Time // by the names of the two flows; forgotten after exposedAgain
}

// exposedPart looks at the scheduler's state every exposedEvery until it is stopped.
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
