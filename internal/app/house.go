package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// house is the models and the scheduler that feeds them.
type house struct {
	models    *host.Host
	scheduler *shell.Scheduler
	library   *library
}

// surroundings are the optional parts around a house. Each may be nil, and tryOnce false.
type surroundings struct {
	observer  shell.Observer
	telemetry shell.Telemetry
	trace     io.Writer // of the scheduler
	traceCut  func()    // trace does not keep up
	// The others are those of host.Config.
	busy     func(model string, version int64) bool
	onChange func(*catalog.Snapshot)
	scan     func() modelrepo.Listing
	keeper   host.Keeper
	tryOnce  bool
	audited  func(audit.Event)
	free     func(device string) (bytes int64, known bool) // FreeMemory
}

// newHouse returns a house without models. It must be closed.
func newHouse(s *config.Server, log *slog.Logger, around surroundings) (*house, error) {
	h := &house{library: &library{named: s.ONNXRuntimeLib}}
	available := parseDevices(s.Devices)
	available.countByBus(log)
	scheduled := available.forScheduler()
	lanes := map[string]int{}
	for _, d := range scheduled {
		lanes[d.Name] = d.Lanes
	}
	engines := newEngines(available, h.library, log)
	h.models = host.New(host.Config{
		Open: engines.open, Sites: engines.sites, FreeMemory: around.free, Logger: log, Lanes: lanes,
		MemoryBudget: int64(s.ModelMemory),
		OnChange:     around.onChange, Busy: around.busy, Scan: around.scan, Keeper: around.keeper,
		TryOnce: around.tryOnce, Audited: around.audited,
	})
	var err error
	h.scheduler, err = shell.New(sharedsched.Config{
		Devices: scheduled, FairnessWindow: time.Duration(s.FairnessWindow), MaxQueuedBytes: int64(s.MaxQueuedBytes),
	}, h.models, shell.Options{
		Observer: around.observer, Telemetry: around.telemetry, Trace: around.trace, TraceCut: around.traceCut,
	})
	if err != nil {
		return nil, err
	}
	h.models.Attach(h.scheduler)
	return h, nil
}

// drain ends the scheduler: admitted tasks are executed, as far as ctx leaves time for them.
func (h *house) drain(ctx context.Context) error {
	err := h.scheduler.Drain(ctx)
	h.scheduler.Close()
	return err
}

// close ends everything.
func (h *house) close(ctx context.Context) error {
	return errors.Join(h.drain(ctx), h.models.Close(ctx))
}
