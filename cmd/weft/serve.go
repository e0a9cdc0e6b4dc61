package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
)

// serveCommand is `weft serve`.
type serveCommand struct {
	settings
	gpuStandIns gpuStandIns // of a test

	hangups <-chan os.Signal // ask for a reload; nil: nobody does
	args    []string         // the command line, to be read again
	level   slog.LevelVar    // of the log
	drain   atomic.Int64     // nanoseconds; the drain timeout that is in force
}

// Run serves until a signal, or a part that fails, ends it.
func (c *serveCommand) Run(s streams) error {
	if err := c.check(); err != nil {
		return err
	}
	// Before anything else: GPU libraries replace signal handlers while they load.
	signals := lifecycle.Signals()
	c.hangups, c.args = lifecycle.Hangups(), s.args
	return c.serve(signals, newLogger(s.err, &c.Server, &c.level))
}

// serve serves until a signal, or a part that fails, ends it.
func (c *serveCommand) serve(signals <-chan os.Signal, log *slog.Logger) error {
	c.drain.Store(int64(c.DrainTimeout))
	stop := lifecycle.Config{Signals: signals, DrainTimeout: func() time.Duration { return time.Duration(c.drain.Load()) }, Logger: log}
	err := lifecycle.Run(stop, func(ctx context.Context, g *lifecycle.Group) error { return c.start(ctx, g, log) })
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// start puts the server together, from the repository to the first answer. Each part is stopped before those above it.
func (c *serveCommand) start(ctx context.Context, g *lifecycle.Group, log *slog.Logger) error {
	began := time.Now()
	repository, listing, err := scan(c.Repositories, log)
	if err != nil {
		return err
	}

	// Listening comes first: what would be in the way of it is told before models are loaded for minutes.
	grpcListener, err := listen(ctx, "listen", c.Listen)
	if err != nil {
		return err
	}
	measured, err := telemetry.New(ctx, telemetry.Config{Version: buildVersion(), Slot: slotOf, Logger: log})
	if err != nil {
		return err
	}
	g.Start(telemetryPart(measured, log))
	var adminListener net.Listener
	if c.AdminListen != "" {
		if adminListener, err = listen(ctx, "admin-listen", c.AdminListen); err != nil {
			return err
		}
	}
	ready := newReadiness()
	if c.HTTP != "" {
		httpListener, err := listen(ctx, "http", c.HTTP)
		if err != nil {
			return err
		}
		log.Info("metrics and health are served", "http", httpListener.Addr().String())
		g.Start(httpPart(httpListener, measured.MetricsHandler(), ready))
	}

	state, statePart, err := openState(c.StateDir, c.Repositories[0], log)
	if err != nil {
		return err
	}
	g.Start(statePart)

	// The scheduler, the engines and the host of the models.
	var edge *server.Server // below, since it serves what the house holds
	var trace io.Writer
	var traceCut func()
	if c.SchedTrace != "" {
		record, err := createTrace(c.SchedTrace, log)
		if err != nil {
			return err
		}
		g.Start(lifecycle.Part{Name: "scheduler trace", Stop: func(context.Context) error { return record.close() }})
		trace, traceCut = record, record.cut
	}
	over := newTakeovers(log)
	around := surroundings{
		observer: measured, trace: trace, traceCut: traceCut, scan: repository.Scan, keeper: state,
		onChange: func(s *catalog.Snapshot) {
			over.follow(s)
			edge.ModelsChanged()
		},
		busy:    func(model string, version int64) bool { return edge.Busy(model, version) }, // not before something was loaded
		audited: func(e host.AuditEvent) { measured.Audited(e.Model, e.Version, string(e.Result), e.Count) },
	}
	var h *house // below, since it looks at the GPUs
	gpus := watchGPUs(&c.Server, c.gpuStandIns, func(device string, cause error) { h.models.LoseDevice(device, cause) }, log)
	if gpus != nil {
		around.telemetry, around.free = gpus, gpus.free
	}
	present := findDevices(&c.Server, gpus)
	present.tell(&c.Server, log)
	if unused := unusedGPUs(&c.Server, listing); unused != "" {
		log.Warn("all models run on the processor", "cause", unused)
	}
	if h, err = newHouse(&c.Server, log, around); err != nil {
		return err
	}
	g.Start(lifecycle.Part{Name: "scheduler and models", Stop: h.close})
	models, err := measured.Watch(h.models, h.scheduler)
	if err != nil {
		return err
	}

	mirror, mirrorPart, err := newMirror(h.models, c.ShadowLog, measured, log)
	if err != nil {
		return err
	}
	g.Start(mirrorPart)
	rollouts := rollout.New(rollout.Config{
		Traffic: h.models, Agreement: mirror.Agreement, Kept: keptRollouts(state), Logger: log,
		Began:      func(model, episode string) (time.Time, bool) { return edge.Began(model, episode) },
		Unfinished: func(model string, since time.Time) map[int64][]time.Time { return edge.Unfinished(model, since) },
	})
	settings := server.Config{
		MaxConcurrentRequests: c.MaxConcurrentRequests, MaxMessageBytes: int(c.MaxMessageBytes),
		Logger: log, Observer: requestObserver{measured, log},
		MaxEpisodes: c.MaxEpisodes, EpisodeTTL: time.Duration(c.EpisodeTTL),
		Shadows: mirror, Rollouts: rollouts, NotPersistedBecause: state.NotLasting(),
	}
	sources := telemetry.Sources{
		Episodes: func() int { return edge.Episodes() }, Breakers: func() []telemetry.Breaker { return breakersOf(edge) },
		Resident: func() telemetry.Resident { return telemetry.Resident(h.models.Counts()) }, ShadowLinesLost: mirror.LinesLost,
	}
	if gpus != nil {
		sources.GPUs = gpus.list
	}
	if c.Record != "" {
		recorder, err := newRecorder(&c.Server, log)
		if err != nil {
			return err
		}
		g.Start(recorder.part())
		settings.Recorder, sources.Recording = recorder, recorder.stats
	}
	edge = server.New(settings, models, h.scheduler)
	if err := measured.WatchSources(sources); err != nil {
		return err
	}
	transport := grpc.NewServer(grpcOptions(&c.Server, log, measured)...)
	edge.Register(transport)

	if gpus != nil && gpus.sampler != nil {
		g.Start(gpus.part(log)) // not before: one that is lost changes what is served
	}
	present.loseAbsent(h.models)
	if err := h.library.loadFor(listing); err != nil {
		return err
	}
	h.models.Follow(listing)
	tellInForce(state, listing, log)                                   // not before: manifests may have spoken since
	g.Start(untilStopped("rollouts", func(ctx context.Context) error { // not before: a model that is not known yet would seem to be gone
		rollouts.Run(ctx)
		return nil
	}))
	// From here on a caller is told that its model is being loaded. Before, there would seem to be no such model.
	if adminListener != nil {
		g.Start(adminPart(adminListener, server.NewAdmin(edge, h.models), grpcOptions(&c.Server, log, measured), log))
		log.Info("changes are taken", "admin", adminListener.Addr().String())
	}
	g.Start(grpcPart(grpcListener, edge, transport, ready, h.scheduler.Hurry, h.scheduler.Abandon, log))
	log.Info("loading; requests are told to wait", "grpc", grpcListener.Addr().String(), "models", len(listing.Models))
	ask := make(chan time.Duration, 1)
	g.Start(watchPart(repository, listing, time.Duration(c.WatchInterval), ask, h, log))
	g.Start(c.reloadPart(edge, h.models, ask, log))
	if err := h.models.Settled(ctx); err != nil {
		return err // a load that has begun is waited for by the house, as long as there is time
	}
	serving, failed := tally(h.models.Snapshot())
	if serving == 0 && len(failed) > 0 { // else everything was unloaded by hand
		return &nothingLoadedError{failed}
	}
	ready.set("ready")
	log.Info("ready", "grpc", grpcListener.Addr().String(), "versions", serving, "failed", len(failed), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// scan lists the models, and logs what is odd about the repositories.
func scan(paths []string, log *slog.Logger) (*modelrepo.Repository, modelrepo.Listing, error) {
	repository, err := modelrepo.Open(paths...)
	if err != nil {
		return nil, modelrepo.Listing{}, err
	}
	listing := repository.Scan()
	if len(listing.Models) == 0 {
		return nil, modelrepo.Listing{}, listing.Err()
	}
	tellOddities(listing, modelrepo.Listing{}, log)
	return repository, listing, nil
}

// tellOddities logs what is odd about the repositories, but keeps nothing from being served, and was not so before.
func tellOddities(now, before modelrepo.Listing, log *slog.Logger) {
	known := map[string]bool{}
	for _, fault := range before.Faults {
		known[fault.Error()] = true
	}
	for _, m := range before.Models {
		for _, note := range m.Notes {
			known[note] = true
		}
	}
	for _, fault := range now.Faults {
		if !known[fault.Error()] {
			log.Error("a part of the repository cannot be served", "cause", fault)
		}
	}
	for _, m := range now.Models {
		for _, note := range m.Notes {
			if !known[note] {
				log.Warn("something in the repository is passed over", "model", m.Name, "cause", note)
			}
		}
	}
}

// flushTimeout is how long the last metrics and traces may take to be sent, also when the stop was cut short.
const flushTimeout = 3 * time.Second

// telemetryPart sends, at the end, what was not exported yet.
func telemetryPart(t *telemetry.Telemetry, log *slog.Logger) lifecycle.Part {
	return lifecycle.Part{Name: "telemetry", Stop: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		// A collector that is away does not make the end a failure.
		if err := t.Shutdown(ctx); err != nil {
			log.Warn("the last telemetry could not be exported", "cause", err)
		}
		return nil
	}}
}
