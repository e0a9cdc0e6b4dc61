package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/internal/threads"
	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched/shell"
)

// assembly is a server that is being put together. Each step of App.start fills in fields that the later ones need, and
// no step changes what an earlier one has set. Only start's goroutine writes the fields. Callbacks that read a field of
// a later step run only after that step.
type assembly struct {
	*App
	group *lifecycle.Group
	log   *slog.Logger
	began time.Time
	ask   chan time.Duration // has the repositories looked at, and from then on so often
	// supervisor is told how the server is.
	supervisor *lifecycle.Supervisor

	pagesAt     string // the address of pages; "": there are none
	repository  *modelrepo.Repository
	listing     modelrepo.Listing
	grpc, admin net.Listener  // admin is nil if it is disabled
	certs       *certs.Keeper // nil: there is no TLS
	dev         *certs.Dev    // nil: certificates were not made here
	httpGuard   access.Browsers
	measured    *telemetry.Telemetry
	state       *decisions.Store
	rules       *accessRules // nil: everybody may do everything
	control     *access.Control
	authorizer  *authorizer // nil: there are no rules to follow
	trace       *traceFile  // nil: the scheduler is not recorded
	gpus        *gpuWatch   // nil: there are none to follow
	present     presence
	house       *house
	memory      tensor.Recycler      // of messages
	clock       *owntime.Clock       // of this process and its workers
	connections *protect.Connections // of all connections
	edge        *server.Server
	web, live   atomic.Pointer[http.Handler] // of edge; nil before there is one
	pagesServer *http.Server                 // nil: --http is empty
	parting     atomic.Bool                  // connections of HTTP are to end with their next answer
	activity    *activity.Log
	transport   *grpc.Server
	rollouts    *rollout.Manager
	mirror      *shadow.Mirror
}

// findModels reads the repositories before anything is opened, so that a wrong path is reported at once.
func (s *assembly) findModels(ctx context.Context) (err error) {
	if err = s.copyRemote(ctx, s.log); err != nil {
		return err
	}
	if s.repository, s.listing, err = scan(&s.Settings, s.log); err == nil {
		s.repository.AcceptUploads(int64(s.MaxUploadBytes), modelfile.Needs, func(v modelrepo.Version) ([]byte, error) {
			list, err := sumsOf(ctx, v, s.stores())
			return list.text, err
		})
	}
	return err
}

// listen opens all listeners. Only the HTTP server answers from here on, with metrics and "loading"; connections to the
// gRPC listeners wait in the system's queue until serveCalls. Telemetry starts before the parts that report to it, so
// that it is stopped after them and exports what they have measured at their ends.
func (s *assembly) listen(ctx context.Context) (err error) {
	if s.grpc, err = listen(ctx, "listen", s.Listen); err != nil {
		return err
	}
	build := ReadBuild()
	if s.measured, err = telemetry.New(ctx, telemetry.Config{
		Version: build.Version, Revision: build.Revision, Slot: slotOf, Runtime: s.Pprof, Logger: s.log,
	}); err != nil {
		return err
	}
	s.group.Start(telemetryPart(s.measured, s.log))
	// It is stopped just before telemetry, when all parts that report have ended.
	if s.atEnd != nil {
		s.group.Start(lifecycle.Part{Name: "a look of a test", Stop: func(context.Context) error {
			s.atEnd(s.measured.MetricsHandler())
			return nil
		}})
	}
	// Access control is there before the HTTP server answers its first request.
	s.openAccess()
	if s.AdminListen != "" {
		if s.admin, err = listen(ctx, "admin-listen", s.AdminListen); err != nil {
			return err
		}
	}
	// The connections of all listeners share one bound.
	s.connections = protect.New(protect.Config{
		MaxHeld: int64(s.MaxHeldBytes), Clock: s.clock, Pages: s.HTTP, Logger: s.log,
	})
	s.group.Start(untilStopped("connection guard", func(ctx context.Context) error {
		s.connections.Watch(ctx)
		return nil
	}))
	if s.HTTP == "" {
		return nil
	}
	http, err := listen(ctx, "http", s.HTTP)
	if err != nil {
		return err
	}
	s.pagesAt = addressOf(http)
	s.log.Info("HTTP listening with predictions, metrics and health", "event", "http_listening", "http", addressOf(http))
	s.group.Start(s.httpPart(http, s.pages(http.Addr(), s.measured.MetricsHandler())))
	return nil
}

// openState comes before buildHouse and buildEdge, which restore the decisions and the rollouts that it keeps.
func (s *assembly) openState(context.Context) (err error) {
	var part lifecycle.Part
	if s.state, part, err = openState(s.StateDir, firstFolder(&s.Settings), s.log); err != nil {
		return err
	}
	s.group.Start(part)
	return nil
}

// traceScheduler comes before buildHouse, so that the file is closed after the scheduler has written its last event.
func (s *assembly) traceScheduler(context.Context) error {
	if s.SchedTrace == "" {
		return nil
	}
	file, err := createTrace(s.SchedTrace, s.log)
	if err != nil {
		return err
	}
	s.group.Start(lifecycle.Part{Name: "scheduler trace", Stop: func(context.Context) error { return file.close() }})
	s.trace = file
	return nil
}

// buildHouse makes the scheduler and the models, and the parts that watch both. No model is loaded before load, so that
// callbacks which only loads cause may read fields that buildEdge sets: edge and mirror.
func (s *assembly) buildHouse(context.Context) (err error) {
	s.gpus = watchGPUs(&s.Server, s.gpuStandIns,
		// It is called only while the part of the GPUs runs, which load starts: by then there is a house.
		func(d gpu.Device, cause error) {
			s.house.engines.lose(d, cause) // before sessions there are closed
			s.house.models.LoseDevice(d.Name, cause)
		}, s.log)
	s.present = findDevices(&s.Server, s.gpus)
	s.present.tell(&s.Server, s.log)
	if unused := unusedGPUs(&s.Server, s.listing); unused != "" {
		s.log.Warn("GPUs unused, all models run on the processor", "event", "gpus_unused", "cause", unused)
	}
	over := newTakeovers(s.log)
	models := host.Config{
		Scan: s.repository.Scan, Looked: s.repository.Looked, Keeper: s.state, Read: reads(&s.Server, s.stores()),
		OnChange: func(now *catalog.Snapshot) { // like LastUse, not before something was loaded: by then there is an edge
			over.follow(now)
			s.edge.ModelsChanged()
		},
		LastUse: func(model string, version int64) time.Time { return s.edge.Router().LastUse(model, version) },
		Audited: func(e audit.Event) { s.measured.Audited(e.Model, e.Version, string(e.Result), e.Count) },
		// Nothing is audited before something was loaded.
		Compared: func(c audit.Comparison) { showNoise(s.mirror, &c) },
		Tried:    s.measured.Tried,
		Stepped:  s.measured.Stepped,
	}
	s.activity = activity.New()
	options := shell.Options{Observer: batchObserver{s.measured, s.activity}}
	// A nil *traceFile in the interface would not be nil there.
	if s.trace != nil {
		options.Trace, options.TraceCut = s.trace, s.trace.cut
	}
	if s.gpus != nil {
		options.Telemetry, models.FreeMemory = s.gpus, s.gpus.free
	}
	if s.house, err = newHouse(&s.Server, s.log, s.clock, models, options); err != nil {
		return err
	}
	s.group.Start(untilStopped("watchdog", func(ctx context.Context) error { // first: it watches the drain, too
		s.supervisor.Watch(ctx, s.house.probes()...)
		return nil
	}))
	// It is stopped after everything that hands tasks to the scheduler.
	s.group.Start(lifecycle.Part{Name: "scheduler and models", Stop: s.house.close})
	s.group.Start(returnPart())
	// While executions wait for a processor, the other threads of this process do not interrupt them.
	s.group.Start(untilStopped("courtesy", func(ctx context.Context) error {
		threads.YieldWhile(ctx, s.house.scheduler.Scarce)
		return nil
	}))
	s.group.Start(exposedPart(s.house.scheduler.State, s.log))
	return nil
}

// buildEdge makes everything between the network and the models, and publishes it to the HTTP server, which answers
// already. gRPC calls are served later, by serveCalls.
func (s *assembly) buildEdge(context.Context) error {
	h := s.house
	models, err := s.measured.Watch(h.models, h.scheduler)
	if err != nil {
		return err
	}
	s.activity.Watch(activity.Config{
		Models: h.models.Snapshot, State: h.scheduler.State, VersionName: h.scheduler.VersionName,
		Epoch: h.scheduler.Epoch(), Slot: slotOf, Totals: totalsOf(s.measured), GPUs: s.gpus.activity,
	})
	s.group.Start(untilStopped("activity", func(ctx context.Context) error {
		s.activity.Run(ctx)
		return nil
	}))
	s.rollouts = rollout.New(rollout.Config{
		Traffic: h.models, Kept: keptRollouts(s.state), Logger: s.log,
		// Rollouts run from load on, and so after edge is set.
		Unfinished: func(model string) []string { return s.edge.Router().Unfinished(model) },
	})
	mirror, part, err := newMirror(s.measured.TraceShadows(h.models), s.ShadowLog, s.measured, s.rollouts.Shown, s.log)
	if err != nil {
		return err
	}
	s.group.Start(part)
	s.mirror = mirror
	episodes := episode.NewStore(episode.Config{Memory: int64(s.StateMemory)})
	settings := server.Config{
		Connections: s.connections, Clock: s.clock.All(),
		MaxConcurrentRequests: s.MaxConcurrentRequests, MaxMessageBytes: int(s.MaxMessageBytes), Memory: &s.memory,
		Logger: s.log, Level: &s.level, Access: s.control,
		Observer: requestObserver{s.measured, s.activity, s.log}, Activity: s.activity,
		MaxEpisodes: s.MaxEpisodes, EpisodeTTL: time.Duration(s.EpisodeTTL),
		Episodes: episodes,
		Scarce:   h.scheduler.Scarce,
		Shadows:  mirror, Rollouts: s.rollouts, NotPersistedBecause: s.state.NotLasting(),
		Residents: h.models, Release: ReadBuild().Version, TritonStatusCodes: s.TritonStatusCodes,
		Traces: tracesOf(s.measured), Calls: callsOf(s.measured),
		Load: h.scheduler.Load, LoadBudget: time.Duration(max(0, s.LoadBudget)), // 0 where it is auto
	}
	// Inputs in shared memory have the bound of those in messages.
	if s.SharedMemory {
		settings.SharedMemory = int64(s.MaxQueuedBytes)
	}
	sources := telemetry.Sources{
		Episodes:        func() int { return s.edge.Router().Episodes() },
		EpisodeStates:   func() telemetry.EpisodeStates { return statesOf(episodes.Counts()) },
		Connections:     func() telemetry.Connections { return connectionsOf(s.connections) },
		Breakers:        func() []telemetry.Breaker { return breakersOf(s.edge) },
		Verdicts:        func() []telemetry.Verdict { return verdictsOf(s.rollouts) },
		Resident:        func() telemetry.Resident { return h.engines.resident(h.models.Counts()) },
		ShadowLinesLost: mirror.LinesLost,
		Workers:         h.engines.stats,
		WorkerMemory:    h.engines.memory,
	}
	// Without rules there are no identities, and so no quotas.
	if !s.control.Open() {
		sources.QuotasUsed = func() map[string]map[string]float64 { return s.control.Policy().Used(time.Now()) }
	}
	if s.certs != nil {
		sources.CertificateExpiry, sources.HandshakeFailures = s.certs.Expiry, s.certs.Failures
	}
	if s.HTTP != "" {
		sources.HTTPRefused = s.httpGuard.Refused
	}
	// A nil *gpuWatch in an interface would not be nil there.
	if s.gpus != nil {
		sources.GPUs = s.gpus.list
	}
	// The recording is stopped after the gRPC server, and so has the last answers.
	if s.Record != "" {
		recording, err := record.New(record.Config{
			Dir: s.Record, Sample: s.RecordSample, Inputs: record.Inputs(s.RecordInputs), MaxBytes: int64(s.RecordLimit),
			Logger: s.log,
		})
		if err != nil {
			return fmt.Errorf("--record %s: %w", s.Record, err)
		}
		s.group.Start(lifecycle.Part{Name: "recording", Stop: recording.Close})
		settings.Recorder = recording
		sources.Recording = func() telemetry.Recording { return telemetry.Recording(recording.Stats()) }
	}
	s.edge = server.New(settings, models, h.scheduler)
	sources.Utilization = s.edge.Load().Utilization
	s.group.Start(untilStopped("load reports", func(ctx context.Context) error {
		s.edge.Load().Watch(ctx)
		return nil
	}))
	s.transport = grpc.NewServer(append(grpcOptions(&s.Server, &s.memory),
		s.edge.Options(s.credentials("listen"))...)...)
	s.edge.Register(s.transport)
	// From now on the HTTP server answers with the edge instead of "the server is starting".
	s.edge.Address = addressOf(s.grpc)
	if s.admin != nil {
		s.edge.AdminAddress = addressOf(s.admin)
	}
	s.web.Store(new(http.Handler(s.edge.Web(ownPaths...))))
	s.live.Store(new(s.edge.Live()))
	return s.measured.WatchSources(sources)
}

// load has the listed models loaded, and does not wait for them. GPUs are followed and absent ones given up before
// that, so that no version is placed on a device that is not there.
func (s *assembly) load(context.Context) error {
	if s.gpus != nil && s.gpus.sampler != nil {
		s.group.Start(s.gpus.part(s.log)) // not before: a lost one changes which versions are served
	}
	s.present.loseAbsent(s.house.models)
	// A server with models that need the library does not start without it. Later listings are only logged
	// (house.follow).
	if err := s.house.library.check(s.listing); err != nil {
		return err
	}
	s.house.models.Follow(s.listing)
	if s.loading != nil {
		s.loading.follow(s.house.models.Snapshot)
	}
	tellInForce(s.state, s.listing, s.log) // not before: manifests may have spoken since
	// They must not start earlier: a model that is not known yet would seem to be gone.
	s.group.Start(untilStopped("rollouts", func(ctx context.Context) error {
		s.rollouts.Run(ctx)
		return nil
	}))
	return nil
}

// serveCalls accepts gRPC connections, those of operators first. The gRPC server is stopped before the admin server,
// which relies on it that the drain has begun (adminPart).
func (s *assembly) serveCalls(context.Context) error {
	if s.admin != nil {
		admin := server.NewAdmin(s.edge, s.house.models)
		if s.MaxUploadBytes > 0 {
			admin.Uploads = s.repository
		}
		admin.Uploaded = s.measured.Uploaded
		options := append(grpcOptions(&s.Server, &s.memory),
			admin.Options(s.credentials("admin-listen"))...)
		s.group.Start(adminPart(s.connections.Listen(s.admin, transport.PingTimeout), admin, options))
		s.log.Info("admin API listening", "event", "admin_listening", "admin", addressOf(s.admin))
	}
	// hurry keeps a stop from waiting for batches to fill, and for runs that hang.
	hurry := func() {
		s.house.scheduler.Hurry()
		s.house.models.Hurry()
	}
	guarded := s.connections.Listen(s.grpc, transport.PingTimeout)
	s.group.Start(grpcPart(guarded, s.edge, s.transport, hurry, s.house.scheduler.Abandon, s.house.end, s.log))
	// The clock starts after the gRPC server, so that it is stopped before it: from then on runs are judged by the
	// system's time. The drain timeout is in the system's time, too, and a run that hangs must not take all of it.
	s.group.Start(untilStopped("clock", func(ctx context.Context) error {
		s.clock.Run(ctx)
		return nil
	}))
	s.log.Info("gRPC listening, models loading", "event", "grpc_listening", "grpc", addressOf(s.grpc),
		"models", len(s.listing.Models))
	s.tellDev()
	return nil
}

// follow comes after load: the watch compares with the listing that load has followed.
func (s *assembly) follow(context.Context) error {
	if s.staged != nil {
		s.group.Start(s.staged.follow(s.repository, s.log))
	}
	ask := s.ask
	if len(s.mirrors) > 0 {
		ask = make(chan time.Duration)
		s.group.Start(mirrorPart(s.mirrors, time.Duration(s.WatchInterval), s.ask, ask))
	}
	s.group.Start(watchPart(s.repository, s.listing, time.Duration(s.WatchInterval), s.settle, ask, s.house, s.log))
	s.group.Start(s.reloadPart(s.edge, s.house.models, s.ask, s.log))
	return nil
}

// awaitModels returns when the server is ready: every version has been loaded or has failed, but for those whose proof
// is slow. If nothing serves by then it waits for these, too. If nothing serves and something has failed, the server
// ends, so that a faulty deployment fails at once.
func (s *assembly) awaitModels(ctx context.Context) error {
	err := s.house.models.Started(ctx)
	// Only slow proofs are left, and there is nothing else to answer requests.
	if serving, _ := tally(s.house.models.Snapshot()); err == nil && serving == 0 {
		err = s.house.models.Settled(ctx)
	}
	if s.loading != nil {
		s.loading.Close()
	}
	if err != nil {
		return err // the house waits for a load that has begun, as long as there is time
	}
	serving, failed := tally(s.house.models.Snapshot())
	if serving == 0 && len(failed) > 0 { // else an operator unloaded everything
		return &nothingLoadedError{failed}
	}
	s.supervisor.Ready()
	// Before that no balancer has sent anything, and a start that fails is to end at once.
	s.group.Start(s.lameDuckPart())
	if s.Hints != nil {
		s.hints(s.Hints)
	}
	s.log.Info("ready", "event", "ready", "grpc", addressOf(s.grpc), "versions", serving, "failed", len(failed),
		"took", time.Since(s.began).Round(time.Millisecond))
	return nil
}
