package transport

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
)

// DefaultMaxMessageBytes is the largest message, in bytes, unless the server's configuration says otherwise.
const DefaultMaxMessageBytes = 16 << 20

// PingTimeout is how long a caller that is asked whether it lives may take to answer, and to confirm what was sent to
// it.
const PingTimeout = 10 * time.Second

const (
	// maxConcurrentStreams is how many calls one connection may have open. Callers that reach it wait on their side,
	// unseen by the scheduler.
	maxConcurrentStreams = 4096
	// A caller may ping this often. Robots on poor networks ping often, and without a call in flight.
	minPingInterval = 5 * time.Second
	// An idle connection is closed after this long: anybody who comes back connects anew.
	maxIdle = 30 * time.Minute
	// The handshakes of TLS and HTTP/2 may take this long.
	connectWithin = 10 * time.Second
	// maxHeaderBytes bounds the headers of a call, decompressed and with 32 bytes for each.
	maxHeaderBytes = 16 << 10
	// The server asks a silent connection whether its caller still lives, so that the work of one that vanished without
	// a word is cancelled.
	pingAfter = 30 * time.Second
	// window is how much a caller may send on a call before any of it is read, in bytes. gRPC would find out by itself how
	// much that has to be, up to as much as this, but with a ping for each burst of data, which costs more than a small
	// model.
	window = 16 << 20
)

// MaxConnectionAge returns an option to follow those of Options: connections older than that are asked to go, while
// their open calls go on. 0: they may be of any age.
func MaxConnectionAge(age time.Duration) grpc.ServerOption {
	return grpc.KeepaliveParams(keepalive.ServerParameters{
		Time: pingAfter, Timeout: PingTimeout, MaxConnectionIdle: maxIdle, MaxConnectionAge: age,
	})
}

// Options returns the options that a grpc.Server must be made with: message limits, keepalive, a Stop that waits for
// handlers, so that no handler outlives the models it uses, and messages that read and encode themselves. They lie in
// memory until they were read or sent.
func Options(maxMessageBytes int, memory mem.BufferPool) []grpc.ServerOption {
	return []grpc.ServerOption{
		experimental.BufferPool(memory),
		grpc.ForceServerCodecV2(newCodec(memory)),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minPingInterval, PermitWithoutStream: true,
		}),
		MaxConnectionAge(0),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(connectWithin),
		grpc.WaitForHandlers(true),
	}
}
