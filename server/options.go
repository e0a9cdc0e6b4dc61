package server

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Transport is how much the gRPC server takes from its callers. The zero value is ready.
type Transport struct {
	// MaxMessageBytes is the largest message that gRPC takes where it reads by itself, that of Config. Zero: 16 MiB.
	MaxMessageBytes int
	// MaxConcurrentStreams is how many calls one connection may have open. Zero: 4096. Callers that reach it wait on their
	// side, unseen by the scheduler.
	MaxConcurrentStreams uint32
	// Logger hears of panics. Nil: slog.Default().
	Logger *slog.Logger
}

const (
	defaultMaxMessageBytes      = 16 << 20
	defaultMaxConcurrentStreams = 4096

	// A caller may ping this often. Robots on poor networks ping often, and without a call in flight.
	minPingInterval = 5 * time.Second
	// The server asks a silent connection whether its caller still lives, so that the work of one that vanished without a
	// word is cancelled.
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// Options returns what the grpc.Server that a Server registers with must be made with: message limits, keepalive, recovery
// from panics, and a Stop that waits for handlers, so that no handler outlives the models it uses.
func (t Transport) Options() []grpc.ServerOption {
	if t.MaxMessageBytes <= 0 {
		t.MaxMessageBytes = defaultMaxMessageBytes
	}
	if t.MaxConcurrentStreams == 0 {
		t.MaxConcurrentStreams = defaultMaxConcurrentStreams
	}
	if t.Logger == nil {
		t.Logger = slog.Default()
	}
	recovery := recovery{log: t.Logger}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(t.MaxMessageBytes),
		grpc.MaxConcurrentStreams(t.MaxConcurrentStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(recovery.unary),
		grpc.ChainStreamInterceptor(recovery.stream),
	}
}
