package transport

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Config is how much the gRPC server takes from its callers. The zero value is ready.
type Config struct {
	// MaxMessageBytes is the largest message in bytes, see Messages. Zero: DefaultMaxMessageBytes.
	MaxMessageBytes int
	// MaxConcurrentStreams is how many calls one connection may have open. Zero: 4096. Callers that reach it wait on
	// their side, unseen by the scheduler.
	MaxConcurrentStreams uint32
	// Logger gets panics. Nil: slog.Default().
	Logger *slog.Logger
}

// DefaultMaxMessageBytes is the largest message, in bytes, unless Config says otherwise.
const DefaultMaxMessageBytes = 16 << 20

const (
	defaultMaxConcurrentStreams = 4096

	// A caller may ping this often. Robots on poor networks ping often, and without a call in flight.
	minPingInterval = 5 * time.Second
	// The server asks a silent connection whether its caller still lives, so that the work of one that vanished without
	// a word is cancelled.
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// Options returns the options that the grpc.Server of Messages must be made with: message limits, keepalive, recovery
// from panics, and a Stop that waits for handlers, so that no handler outlives the models it uses.
func (c Config) Options() []grpc.ServerOption {
	if c.MaxMessageBytes <= 0 {
		c.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if c.MaxConcurrentStreams == 0 {
		c.MaxConcurrentStreams = defaultMaxConcurrentStreams
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	recovery := recovery{log: c.Logger}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(c.MaxMessageBytes),
		grpc.MaxConcurrentStreams(c.MaxConcurrentStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minPingInterval, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(recovery.unary),
		grpc.ChainStreamInterceptor(recovery.stream),
	}
}
