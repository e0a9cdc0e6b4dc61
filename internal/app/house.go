package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/worker/sandbox"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// house is the models, the scheduler that feeds them, and the engines that run them. `weft serve` and `weft check` have
// the same one.
type house struct {
	models    *host.Host
	scheduler *shell.Scheduler
	library   *library
	engines   *engines
	log       *slog.Logger
	left      error // runs are left behind; used by one part that is stopped after the other
}

// newHouse returns a house without models. models and options connect it to other parts; newHouse fills in what follows
// from the settings. clock may be nil, which is the system's. Close it.
func newHouse(s *config.Server, log *slog.Logger, clock *owntime.Clock, models host.Config,
	options shell.Options,
) (*house, error) {
	operators, err := absolute(s.ORTOps)
	if err != nil {
		return nil, err
	}
	h := &house{library: &library{named: s.ONNXRuntimeLib, operators: operators}, log: log}
	available := parseDevices(s.Devices)
	// This is before anything that may load CUDA.
	available.countByBus(log)
	scheduled := available.forScheduler()
	models.Lanes = map[string]int{}
	for _, d := range scheduled {
		models.Lanes[d.Name] = d.Lanes
	}
	h.engines = newEngines(available, s, h.library, clock, log)
	models.Open, models.Sites, models.Revive = h.engines.open, h.engines.sites, h.engines.revive
	if models.Read == nil {
		models.Read = reads(s, s.ModelStores)
	}
	models.Logger, models.MemoryBudget, models.RunTimeout = log, int64(s.ModelMemory), time.Duration(s.RunTimeout)
	// An answer that is larger could not be sent.
	models.MaxAnswer = int(s.MaxMessageBytes)
	h.models = host.New(models)
	h.engines.changed = h.models.Review // before the first worker is started
	h.scheduler, err = shell.New(sharedsched.Config{
		Devices: scheduled, MaxQueuedBytes: int64(s.MaxQueuedBytes),
	}, h.models, options)
	if err != nil {
		return nil, err
	}
	// The scheduler needs its executor to be made, and the host hands it tasks: hence the two steps.
	h.models.Attach(h.scheduler)
	return h, nil
}

// probes are what the watchdog asks: the scheduler and the host, each for a cheap answer that takes its lock. Without
// them no request is answered and no model changes. Late answers, or one model that hangs, are no reason to end the
// server: other models answer.
func (h *house) probes() []lifecycle.Probe {
	return []lifecycle.Probe{
		{Name: "scheduler", Ask: func() { h.scheduler.Scarce() }},
		{Name: "models", Ask: func() { h.models.Counts() }},
	}
}

// sandboxOf returns what the processes of models may do; nil: whatever the server may. They get private copies of
// models, and so need no file of a repository. They load operator libraries by their paths.
func sandboxOf(s *config.Server, d devices, operators []string) *sandbox.Policy {
	if s.Sandbox == config.SandboxOff {
		return nil
	}
	return &sandbox.Policy{Readable: operators, GPU: len(d.gpus) > 0}
}

// close ends everything. Admitted tasks are executed, as far as ctx leaves time for them. When ctx ends, the workers
// are ended, and with them the runs there. Runs in this process have the farewell, and are then left behind together
// with the models. The error is then lifecycle.ErrLeftBehind.
func (h *house) close(ctx context.Context) error {
	defer h.engines.close()
	// Drain and Close wait for runs. This ends runs that hang in a worker.
	unwatch := context.AfterFunc(ctx, h.engines.close)
	defer unwatch()
	// The stop of the gRPC server has found the runs, and has waited for them.
	if h.left != nil { // they have had the farewell
		return h.left
	}
	err := h.scheduler.Drain(ctx)
	// Close waits for batches in flight, which may hang.
	closed := make(chan struct{})
	go func() {
		h.scheduler.Close()
		close(closed)
	}()
	if err != nil {
		select {
		case <-closed:
		case <-time.After(farewell):
			if left := h.end(); left != nil {
				return left
			}
		}
	}
	<-closed
	return errors.Join(err, h.models.Close(ctx))
}

// end ends the runs that go on in workers. Nothing ends runs in this process: where models run here, end logs which go
// on, and returns lifecycle.ErrLeftBehind if some do.
func (h *house) end() error {
	h.engines.close()
	if h.engines.workers != nil {
		return nil
	}
	for _, v := range h.scheduler.State().Versions {
		runs := 0
		for _, q := range v.Queues {
			runs += q.Running
		}
		if runs == 0 {
			continue
		}
		h.left = lifecycle.ErrLeftBehind
		model, version, _ := strings.Cut(v.Name, "/")
		h.log.Error("run left behind", "event", "run_left_behind", "model", model, "version", version, "runs", runs,
			"cause", "it goes on in the server's process, and only ends with that")
	}
	return h.left
}
