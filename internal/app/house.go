package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/worker/sandbox"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// house is the models and the scheduler that feeds them.
type house struct {
	models    *host.Host
	scheduler *shell.Scheduler
	library   *library
	engines   *engines
}

// newHouse returns a house without models, whose parts are connected as models and options say: what follows from the
// settings is filled in. It must be closed.
func newHouse(s *config.Server, log *slog.Logger, models host.Config, options shell.Options) (*house, error) {
	h := &house{library: &library{named: s.ONNXRuntimeLib}}
	available := parseDevices(s.Devices)
	available.countByBus(log)
	scheduled := available.forScheduler()
	models.Lanes = map[string]int{}
	for _, d := range scheduled {
		models.Lanes[d.Name] = d.Lanes
	}
	h.engines = newEngines(available, s, h.library, log)
	models.Open, models.Sites, models.Revive = h.engines.open, h.engines.sites, h.engines.revive
	models.Read = reads(s.RequireDigests)
	models.Logger, models.MemoryBudget, models.RunTimeout = log, int64(s.ModelMemory), time.Duration(s.RunTimeout)
	models.MaxAnswer = int(s.MaxMessageBytes)
	h.models = host.New(models)
	h.engines.changed = h.models.Review // before the first worker is started
	var err error
	h.scheduler, err = shell.New(sharedsched.Config{
		Devices: scheduled, FairnessWindow: time.Duration(s.FairnessWindow), MaxQueuedBytes: int64(s.MaxQueuedBytes),
	}, h.models, options)
	if err != nil {
		return nil, err
	}
	h.models.Attach(h.scheduler)
	return h, nil
}

// sandboxOf returns what the processes of models may do; nil: whatever the server may. They get the private copies of
// models, and no file of a repository.
func sandboxOf(s *config.Server, d devices) *sandbox.Policy {
	if s.Sandbox == config.SandboxOff {
		return nil
	}
	return &sandbox.Policy{GPU: len(d.gpus) > 0}
}

// drain ends the scheduler: admitted tasks are executed, as far as ctx leaves time for them.
func (h *house) drain(ctx context.Context) error {
	err := h.scheduler.Drain(ctx)
	h.scheduler.Close()
	return err
}

// close ends everything. Once ctx ends, so do the runs that go on in workers.
func (h *house) close(ctx context.Context) error {
	defer h.engines.close()
	unwatch := context.AfterFunc(ctx, h.engines.close)
	defer unwatch()
	return errors.Join(h.drain(ctx), h.models.Close(ctx))
}
