// Package server is the gRPC edge of Weft, put together: the pipeline that every request goes through, the services of
// each protocol before it, and health.
package server

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	orca "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/live"
	"github.com/weftserve/weft/server/load"
	"github.com/weftserve/weft/server/openinference"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/tfserving"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/server/weftapi"
	"github.com/weftserve/weft/sharedsched"
)

// Observer is notified of requests and of reports, for metrics.
type Observer interface {
	predict.Observer
	weftapi.OutcomeObserver
	// RequestUnread says that a request was refused by the header of its call, before it is offered and done.
	RequestUnread(model string)
	// CallCame says how long the header of a call waited in the kernel and in this process until it was seen; it is
	// called only where that is known.
	CallCame(waited time.Duration)
}

// Calls are told of the calls of gRPC, whatever they ask for.
type Calls interface {
	// Came returns the context of a call that was let in by its header. stream: its caller sends any number of messages.
	Came(ctx context.Context, method string, header metadata.MD, stream bool) context.Context
	// Ended is told how the handler of a call ended.
	Ended(ctx context.Context, err error)
}

// Shadows runs requests once more on other versions, in spare time, and reports how those do.
type Shadows interface {
	predict.Shadows
	weftapi.Shadows
}

// Rollouts compares versions by how they did, and moves traffic to the better ones.
type Rollouts interface {
	predict.Rollouts
	weftapi.Rollouts
}

// Config holds the parts and limits of a Server. All of it is fixed for its life.
type Config struct {
	// MaxConcurrentRequests is how many predictions may be in the server at once, over all connections and streams;
	// more are refused (SERVER_FULL). Zero: no bound but the queues'. Too low refuses requests that the queues could
	// hold.
	MaxConcurrentRequests int
	// MaxInFlightPerStream is how many requests of one stream may be unanswered before the server stops reading it.
	// Zero: 64. Too low keeps batches small when few streams carry all traffic; each one costs a goroutine.
	MaxInFlightPerStream int
	// MaxMessageBytes is the largest message in bytes, its framing on a stream and its size after decompression
	// included. Larger ones become errors (MESSAGE_TOO_LARGE, ANSWER_TOO_LARGE). Zero: the default of Transport. It
	// must not be above what the grpc.Server sends. Too low refuses big tensors; too high lets one caller claim that
	// much memory per stream.
	MaxMessageBytes int
	// Memory is where requests and answers lie; it need not clear what it hands out. Nil: that of gRPC, which does.
	Memory mem.BufferPool
	// Scarce reports whether executions wait for a processor at present; while they do, calls may be refused unread
	// (THROTTLED). Nil: they do not.
	Scarce func() bool
	// Clock is that of this process and its workers. Nil: the system's.
	Clock *owntime.Clock
	// Connections bounds what connections cost. Nil: one with its defaults, whose Watch does not run.
	Connections *protect.Connections
	// Access decides who may do what. Nil: everybody may do everything.
	Access *access.Control
	// Logger gets panics. Nil: slog.Default().
	Logger *slog.Logger
	// Level is that from which on Logger logs; callers may change it. Nil: one that nobody follows.
	Level *slog.LevelVar
	// Observer may be nil.
	Observer Observer
	// Calls may be nil.
	Calls Calls
	// Activity is shown. It must watch, and be told of batches and, through Observer, of requests. Nil: nothing is shown.
	Activity *activity.Log
	// MaxEpisodes and EpisodeTTL bound the memory of running episodes, see routing.Config. Zero: its defaults.
	MaxEpisodes int
	EpisodeTTL  time.Duration
	// Episodes is that of predict.Config.
	Episodes *episode.Store
	// Shadows runs requests once more on the versions that traffic puts into the shadow. Nil: none are.
	Shadows Shadows
	// Rollouts compares versions by how they did. Nil: nothing is compared.
	Rollouts Rollouts
	// NotPersistedBecause tells callers why changes at run time end with the server; "": they outlive it.
	NotPersistedBecause string
	// Recorder keeps requests and answers. Nil: none are kept.
	Recorder predict.Recorder
	// Traces follow requests. Nil: none are followed.
	Traces predict.Traces
	// Load returns how much the devices have to do, and when that was: answers, and a service, report it. Nil: they do
	// not. LoadBudget is the Budget of load.Config.
	Load       func() (sharedsched.Time, []sharedsched.DeviceLoad)
	LoadBudget time.Duration
	// Residents changes which versions are served, at the request of callers who may operate, where Access says who
	// may. Nil: only Admin does.
	Residents weftapi.Residents
	// Release is what the server says its release is.
	Release string
	// SharedMemory lets callers register regions of shared memory, whose parts requests may name: so many bytes of them
	// may be in use as inputs at once. Zero: they may not.
	SharedMemory int64
	// TritonStatusCodes has the Open Inference Protocol answer as Triton does where there is no capacity, or no time.
	TritonStatusCodes bool
}

// Server serves models until it drains. It is safe for concurrent use.
type Server struct {
	// Address is where it takes calls of gRPC, for commands that pages show. It is set before Web and Live are called.
	Address string
	// AdminAddress is where it takes those of AdminService, for callers who ask for them here; "": nowhere.
	AdminAddress string

	pipeline    *predict.Pipeline
	api         *weftapi.API
	inference   *openinference.Service
	health      *modelHealth
	load        *load.Meter // nil: there are no reports
	observer    Observer    // nil: none
	calls       Calls       // may be nil
	connections *protect.Connections
	methods     methods
	bodies      atomic.Int64 // of HTTP, see web.Pages
}

// New returns a server of the models. The scheduler's state is only shown. Its health is NOT_SERVING until
// ModelsChanged has found the models in order.
func New(config Config, models predict.Models, scheduler weftapi.SchedulerState) *Server {
	config.MaxMessageBytes = cmp.Or(config.MaxMessageBytes, transport.DefaultMaxMessageBytes)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Level = cmp.Or(config.Level, &slog.LevelVar{})
	config.Connections = cmp.Or(config.Connections, protect.New(protect.Config{Logger: config.Logger}))
	if config.Access == nil {
		config.Access = &access.Control{}
	}
	if config.Scarce == nil {
		config.Scarce = func() bool { return false }
	}
	if config.Memory == nil {
		config.Memory = mem.DefaultBufferPool()
	}
	if config.Activity == nil {
		config.Activity = activity.New()
		config.Activity.Watch(activity.Config{
			Models:      func() *catalog.Snapshot { return models.Snapshot() },
			Epoch:       time.Now(),
			State:       func() sharedsched.State { return scheduler.State() },
			VersionName: func(sharedsched.VersionID) string { return "" },
		})
	}
	statistics := &predict.Statistics{}
	pipeline := predict.New(predict.Config{
		MaxConcurrentRequests: config.MaxConcurrentRequests, MaxEpisodes: config.MaxEpisodes,
		EpisodeTTL: config.EpisodeTTL, Memory: config.Memory,
		Explain: status.Explain, Clock: config.Clock, Logger: config.Logger,
		Episodes: config.Episodes, Statistics: statistics, Observer: config.Observer, Shadows: config.Shadows,
		Rollouts: config.Rollouts, Recorder: config.Recorder, Traces: config.Traces,
	}, models)
	// Explained once: calls are refused unread to save time.
	throttled := status.Explain(&protect.ThrottledError{})
	refuse := &protect.Throttle{
		Scarce: config.Scarce,
		Status: func(e *protect.ThrottledError) error {
			return status.Of(e, predict.Place{Model: e.Model, Version: e.Version}).Err()
		},
		Refused: func(k protect.Kind) {
			if config.Observer != nil {
				config.Observer.RequestUnread(k.Model)
			}
			pipeline.Throttled(k.Model, throttled)
		},
	}
	s := &Server{
		pipeline: pipeline,
		api: &weftapi.API{
			Calls: &transport.Calls{
				Pipeline: pipeline, Control: config.Access, Memory: config.Memory, Throttle: refuse, Logger: config.Logger,
				MaxInFlightPerStream: cmp.Or(config.MaxInFlightPerStream, 64), MaxMessageBytes: config.MaxMessageBytes,
			},
			Scheduler: scheduler, Activity: config.Activity, NotPersistedBecause: config.NotPersistedBecause,
			Outcomes: config.Observer, Shadows: config.Shadows, Rollouts: config.Rollouts,
		},
		observer:    config.Observer,
		calls:       config.Calls,
		health:      newModelHealth(health.NewServer()),
		connections: config.Connections,
	}
	if config.Load != nil {
		s.load = load.New(load.Config{Devices: config.Load, Requests: statistics.Totals, Budget: config.LoadBudget})
		s.api.Trailer = s.load.Trailer
	}
	if config.Calls != nil {
		s.api.Ended = config.Calls.Ended
	}
	// The Open Inference Protocol may have other codes for the same errors, and so Calls of its own.
	calls := *s.api.Calls
	if config.TritonStatusCodes {
		calls.Codes = status.AsTriton
	}
	s.inference = &openinference.Service{
		Calls: &calls, Name: "weft", Version: config.Release, Ready: s.ready, Statistics: statistics,
		Level: config.Level,
	}
	if config.SharedMemory > 0 {
		s.inference.Regions = openinference.NewRegistry(config.SharedMemory)
	}
	s.inference.Operated = !config.Access.Open()
	if config.Residents != nil {
		s.inference.Repository = repository{weftapi.Admin{API: s.api, Residents: config.Residents}}
	}
	return s
}

// Register adds the services, health and reflection to g, which must have been made with the options of package
// transport.
func (s *Server) Register(g *grpc.Server) {
	services := s.api.On(g)
	weftv1.RegisterPredictionServiceServer(services, weftapi.Predictions{API: s.api})
	weftv1.RegisterModelServiceServer(services, weftapi.Catalog{API: s.api})
	s.inference.Register(g)
	tfserving.Register(g, s.api.Calls)
	leaving := s.pipeline.Gate().Reached(predict.Leaving)
	healthgrpc.RegisterHealthServer(services, &drainingHealth{s.health.server, s.health, leaving})
	if s.load != nil {
		orca.RegisterOpenRcaServiceServer(services, &load.Service{Meter: s.load, Over: leaving})
	}
	reflection.Register(services)
	s.methods = methodsOf(g)
}

// Web returns the protocols over HTTP: the Open Inference Protocol, TensorFlow Serving's and KServe's. Whatever is not
// found is answered with the nearest call of theirs, or of what is served elsewhere.
func (s *Server) Web(elsewhere ...string) *web.Mux {
	mux := &web.Mux{Main: "POST /v1/models/{model}:predict"}
	mux.Known(elsewhere...)
	pages := web.Pages{Calls: s.inference.Calls, Bodies: &s.bodies}
	(&openinference.Web{Service: s.inference, Pages: pages}).Register(mux)
	pages.Describe(mux, serving.ModelService_ServiceDesc.ServiceName, "GetModelStatus",
		web.About{Release: s.inference.Version, Address: s.Address})
	mux.HandleFunc("GET /docs", live.Docs)
	(&tfserving.REST{
		Predictions: tfserving.Predictions{Calls: s.api.Calls}, Models: tfserving.Models{Calls: s.api.Calls},
		Pages: web.Pages{Calls: s.api.Calls, Bodies: &s.bodies},
	}).Register(mux)
	return mux
}

// Live returns the live page, for all paths below live.Path. It names the address where the server takes calls.
func (s *Server) Live() http.Handler {
	return (&live.Page{
		Activity: s.api.Activity, Models: weftapi.Catalog{API: s.api}, Access: s.api.Control,
		Closed: s.pipeline.Gate().Reached(predict.Leaving), Address: s.Address,
	}).Handler()
}

// Options returns the options of a grpc.Server that listens to the callers of predictions, with these credentials. Its
// listener must be one of Connections.
func (s *Server) Options(c credentials.TransportCredentials) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(s.connections.Credentials(c, access.Keep)), grpc.InTapHandle(s.tap),
	}
}

// measuredCalls: of one in so many it is measured how long it took to be seen. To measure each would cost a policy of
// microseconds three requests in a hundred.
const measuredCalls = 16

// tap sees the header of each call as soon as it was read, on the goroutine that reads the connection: it must be
// quick. It refuses calls of unknown methods, calls of crowded connections, and calls for which there is no capacity.
func (s *Server) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	now := time.Now()
	if s.observer != nil && rand.Uint32()%measuredCalls == 0 {
		if waited := protect.Waited(ctx, now); waited > 0 {
			s.observer.CallCame(waited)
		}
	}
	ctx, err := s.methods.tap(ctx, s.connections, call, "AdminService", s.AdminAddress+" (--admin-listen)")
	if err != nil {
		return ctx, err
	}
	ctx, err = s.api.Throttle.Tap(protect.Header(ctx, now), now, call)
	if err != nil {
		protect.Excuse(ctx)
		return ctx, err
	}
	return s.came(ctx, call, s.methods), nil
}

// came tells Calls of a call that was let in, and returns its context.
func (s *Server) came(ctx context.Context, call *tap.Info, of methods) context.Context {
	if s.calls == nil {
		return ctx
	}
	return s.calls.Came(ctx, call.FullMethodName, call.Header, of[call.FullMethodName])
}

// Admin is the service that changes the models and the traffic of a server.
type Admin struct {
	weftapi.Admin
	server  *Server
	methods methods
}

// NewAdmin returns the service that changes the models and the traffic of s.
func NewAdmin(s *Server, residents weftapi.Residents) *Admin {
	return &Admin{Admin: weftapi.Admin{API: s.api, Residents: residents}, server: s}
}

// Options returns the options of a grpc.Server that listens to callers who change what is served, with these
// credentials.
func (a *Admin) Options(c credentials.TransportCredentials) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(a.server.connections.Credentials(c, access.Keep)), grpc.InTapHandle(a.tap),
	}
}

// tap sees the header of each call as soon as it was read.
func (a *Admin) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	ctx, err := a.methods.tap(ctx, a.server.connections, call, "PredictionService", a.server.Address+" (--listen)")
	if err != nil {
		return ctx, err
	}
	return a.server.came(ctx, call, a.methods), nil
}

// Register adds the services, including the ones that only show something, and reflection to the server of the admin
// listener.
func (a *Admin) Register(g *grpc.Server) {
	services := a.server.api.On(g)
	weftv1.RegisterAdminServiceServer(services, a.Admin)
	weftv1.RegisterModelServiceServer(services, weftapi.Catalog{API: a.server.api, Operated: true})
	inference := *a.server.inference
	inference.Repository, inference.Operated = repository{a.Admin}, true
	inference.Register(g)
	reflection.Register(services)
	a.methods = methodsOf(g)
}

// SetMaxConcurrentRequests changes how many predictions may be in the server from the next one on; 0: no bound. It is
// the limit of predict.Gate, and has nothing to do with the promotion gates of rollouts.
func (s *Server) SetMaxConcurrentRequests(n int) { s.pipeline.Gate().SetLimit(n) }

// ModelsChanged brings health in step with the models. Call it after every change of the snapshot; requests see a
// change without it.
func (s *Server) ModelsChanged() {
	now := s.pipeline.Snapshot()
	s.health.follow(now)
	s.inference.Statistics.Keep(now)
}

// Health says whether requests are answered: ready, loading, stalled (see catalog.Version.Stalled), draining, or
// unavailable where there is no model that could answer. It is as of the latest ModelsChanged.
func (s *Server) Health() string { return s.health.state() }

func (s *Server) ready() bool { return s.Health() == ready }

// ModelHealth says whether requests of a model that name no version are answered: ready, stalled, loading or
// unavailable; "" if there is no such model.
func (s *Server) ModelHealth(model string) string {
	m := s.pipeline.Snapshot().Model(model)
	switch {
	case m == nil:
		return ""
	case m.Responds():
		return ready
	case m.Answers():
		return stalled
	}
	if loads, _ := isLoading(m); loads {
		return loading
	}
	return unavailable
}

// Retire turns health to NOT_SERVING, but for the service "live". Everything is answered on, so that callers and
// balancers have the time to notice; a stream ends where an episode does. It begins the stop, and may be called again.
func (s *Server) Retire() {
	s.health.retire()
	s.pipeline.Gate().Advance(predict.Retiring)
}

// Leave retires, and ends the calls that would last: watches of health and activity, calls that wait for a load, and
// streams, whose callers are asked to open them elsewhere. Unary requests are answered on, so that none fails that
// comes before its connection was told to go: the grpc.Server is to be stopped gracefully at the same time.
func (s *Server) Leave() {
	s.Retire()
	s.pipeline.Gate().Advance(predict.Leaving)
}

// Drain leaves, refuses new requests as UNAVAILABLE, and waits until every accepted request was answered and every
// stream has ended, or ctx has. The error is then ctx's. Drain may be called again.
func (s *Server) Drain(ctx context.Context) error {
	s.Leave()
	s.pipeline.Gate().Advance(predict.Closed)
	return s.pipeline.Gate().Drain(ctx)
}

// Load measures how loaded the server is while its Watch runs; nil: Config has no Load.
func (s *Server) Load() *load.Meter { return s.load }

// Router remembers the versions of running episodes.
func (s *Server) Router() *routing.Router { return s.pipeline.Router() }

// Breakers returns the circuit breakers of all versions with recent requests.
func (s *Server) Breakers() []breaker.State { return s.pipeline.Breakers() }

// Unanswered returns the number of predictions in the server.
func (s *Server) Unanswered() int { return s.pipeline.Gate().Inside() }

// methods are those of a grpc.Server, such as /weft.v1.PredictionService/Predict, and whether their callers send any
// number of messages.
type methods map[string]bool

func methodsOf(g *grpc.Server) methods {
	all := methods{}
	for service, info := range g.GetServiceInfo() {
		for _, m := range info.Methods {
			all["/"+service+"/"+m.Name] = m.IsClientStream
		}
	}
	return all
}

// tap refuses, by their headers, calls of methods that no service has, and calls that there is no room for. gRPC
// would begin a handler for each, and repeat the name of the method as it came, however long it is. service is one of
// weft.v1 that is at another address.
func (m methods) tap(ctx context.Context, c *protect.Connections, call *tap.Info, service, address string,
) (context.Context, error) {
	ctx, err := c.Tap(ctx, call.Header)
	if _, known := m[call.FullMethodName]; err == nil && !known {
		unknown := &status.UnknownMethodError{Method: call.FullMethodName}
		if strings.HasPrefix(call.FullMethodName, "/weft.v1."+service+"/") && !strings.HasPrefix(address, " ") {
			unknown.Elsewhere = "weft.v1." + service + " is on " + address
		}
		err = unknown
	}
	if err != nil {
		return ctx, status.Of(err, predict.Place{}).Err()
	}
	return ctx, nil
}
