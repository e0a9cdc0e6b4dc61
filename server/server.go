// Package server is the gRPC edge of Weft: it checks requests, routes them, has them run, and turns what went wrong into
// errors that callers can act on.
package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// Models knows the models and runs them.
type Models interface {
	// Snapshot returns every known model. The result is immutable; a change replaces it and raises its Revision.
	Snapshot() *catalog.Snapshot
	// Predict runs the call and fills its Results and Outcome. It blocks until nothing reads call.Inputs any more. When ctx ends,
	// a call that is still queued fails at once with context.Cause(ctx); one that is already running is waited for. Safe for
	// concurrent use.
	Predict(ctx context.Context, call *catalog.Call) error
}

// SchedulerState shows the scheduler's state to ModelService.
type SchedulerState interface {
	// State returns a snapshot that the caller owns. It may wait for the scheduler's lock.
	State() sharedsched.State
}

// Observer hears of requests and how they ended, for metrics.
type Observer interface {
	RequestObserver
	// OutcomeReported follows every report of how an episode went.
	OutcomeReported(model string, version int64)
	// OutcomeNotKept follows for each number of a report that was not kept. The reason is one of few constants.
	OutcomeNotKept(model string, version int64, reason string)
}

// RequestObserver hears of predictions, each that reaches the server: one of a stream when it was read. Calls come from any goroutine
// and must not block.
type RequestObserver interface {
	// RequestOffered comes first. The model is the one asked for, "" if there is none of that name or the request cannot be read.
	RequestOffered(model string, stream bool)
	// RequestDone follows, answered or not, with the same Model and Stream.
	RequestDone(RequestEvent)
}

// Config is what a Server is made with. All of it is fixed for its life.
type Config struct {
	// MaxConcurrentRequests is how many predictions may be in the server at once, over all connections and streams; more are
	// refused (SERVER_FULL). Zero: no bound but the queues'. Too low refuses what the queues could hold.
	MaxConcurrentRequests int
	// MaxInFlightPerStream is how many requests of one stream may be unanswered before the server stops reading it. Zero: 64.
	// Too low keeps batches small when few streams carry all traffic; each one costs a goroutine.
	MaxInFlightPerStream int
	// MaxMessageBytes is the largest message in bytes, what it takes on a stream and when it is decompressed included. Larger ones become
	// errors (MESSAGE_TOO_LARGE, ANSWER_TOO_LARGE). Zero: the default of Transport. It must not be above what the grpc.Server sends. Too
	// low refuses big tensors; too high lets one caller claim that much memory per stream.
	MaxMessageBytes int
	// Logger hears of panics. Nil: slog.Default().
	Logger *slog.Logger
	// Observer may be nil.
	Observer Observer
	// MaxEpisodes and EpisodeTTL bound what is remembered of running episodes, see routing.Config. Zero: its defaults.
	MaxEpisodes int
	EpisodeTTL  time.Duration
	// Shadows runs requests once more on the versions that traffic puts into the shadow. Nil: none are.
	Shadows Shadows
	// Rollouts compares versions by how they did. Nil: nothing is compared.
	Rollouts Rollouts
	// NotPersistedBecause says why what is changed at run time ends with the server, for its callers; "": it outlives that.
	NotPersistedBecause string
	// Recorder keeps requests and answers. Nil: none are kept.
	Recorder Recorder
}

const defaultInFlightPerStream = 64

// Server implements PredictionService, ModelService and grpc.health.v1.Health. It is safe for concurrent use.
type Server struct {
	weftv1.UnimplementedPredictionServiceServer
	weftv1.UnimplementedModelServiceServer

	config    Config
	models    Models
	scheduler SchedulerState
	log       *slog.Logger
	router    *routing.Router
	breaker   *breaker.Breaker
	serial    atomic.Uint64 // of requests, for those without ids
	gate      *gate
	health    *modelHealth
	withheld  withheld
}

// New returns a server of the models. The scheduler's state is only shown. Its health is NOT_SERVING until ModelsChanged has
// found the models in order.
func New(config Config, models Models, scheduler SchedulerState) *Server {
	if config.MaxInFlightPerStream <= 0 {
		config.MaxInFlightPerStream = defaultInFlightPerStream
	}
	if config.MaxMessageBytes <= 0 {
		config.MaxMessageBytes = defaultMaxMessageBytes
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	fit := breaker.New(breaker.Config{OnChange: func(b breaker.State) { logBreaker(config.Logger, &b) }})
	return &Server{
		config:    config,
		router:    routing.NewRouter(routing.Config{MaxEpisodes: config.MaxEpisodes, EpisodeTTL: config.EpisodeTTL, Health: fit}),
		breaker:   fit,
		models:    models,
		scheduler: scheduler,
		log:       config.Logger,
		gate:      newGate(config.MaxConcurrentRequests),
		health:    newModelHealth(health.NewServer()),
		withheld:  withheld{log: config.Logger},
	}
}

// Register adds the services, health and reflection to g, which must have been made with Options.
func (s *Server) Register(g *grpc.Server) {
	services := s.messages(g)
	weftv1.RegisterPredictionServiceServer(services, s)
	weftv1.RegisterModelServiceServer(services, s)
	healthgrpc.RegisterHealthServer(services, &drainingHealth{Server: s.health.server, draining: s.gate.closed})
	reflection.Register(services)
}

// messages returns what services are to be registered with in the place of g.
func (s *Server) messages(g *grpc.Server) messages {
	return messages{Server: g, limit: s.config.MaxMessageBytes, refused: s.unread}
}

// SetMaxConcurrentRequests changes how many predictions may be in the server from the next one on; 0: no bound.
func (s *Server) SetMaxConcurrentRequests(n int) { s.gate.setLimit(n) }

// ModelsChanged brings health in step with the models. Call it after every change of the snapshot; requests see a change
// without it.
func (s *Server) ModelsChanged() { s.health.follow(s.models.Snapshot()) }

// Drain refuses new requests as UNAVAILABLE, turns health to NOT_SERVING and soon ends the calls that watch it, ends the reading
// of streams, and waits until every accepted request was answered and every stream has ended, or ctx has. The error is then ctx's. Stop the grpc.Server
// gracefully afterwards, which sends the last answers; until then callers learn that the server is draining. Drain may be
// called again.
func (s *Server) Drain(ctx context.Context) error {
	s.health.server.Shutdown()
	return s.gate.drain(ctx)
}

// Episodes returns the number of running episodes whose version is remembered.
func (s *Server) Episodes() int { return s.router.Episodes() }

// Began returns when an episode that is running, or ended lately, came to its version.
func (s *Server) Began(model, episode string) (time.Time, bool) {
	return s.router.Began(model, episode)
}

// Unfinished returns when those of a model's episodes began, by version, that began at since or later and of which it may still be
// reported how they went.
func (s *Server) Unfinished(model string, since time.Time) map[int64][]time.Time {
	return s.router.Unfinished(model, since)
}

// Busy reports whether an episode is running on a version.
func (s *Server) Busy(model string, version int64) bool { return s.router.Busy(model, version) }

// Breakers returns the circuit breakers of all versions that were asked lately.
func (s *Server) Breakers() []breaker.State { return s.breaker.States() }

// Unanswered returns the number of predictions in the server.
func (s *Server) Unanswered() int { return s.gate.inside() }

// table returns the routing table of this moment.
func (s *Server) table() *routing.Table { return s.router.Table(s.models.Snapshot()) }
