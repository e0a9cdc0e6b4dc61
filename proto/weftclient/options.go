package weftclient

import (
	"context"
	"crypto/tls"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"
)

const (
	defaultAttempts        = 4
	defaultMaxMessageBytes = 16 << 20 // as in the server
)

// Option is an option of [New]. A later option replaces an earlier one of the same kind. Options of [WithDialOptions]
// add up.
type Option func(*settings)

// settings are the values that the options of New set.
type settings struct {
	tls             *tls.Config
	token           string
	attempts        int
	maxMessageBytes int
	dial            []grpc.DialOption
}

// WithTLS makes the client use TLS. If config is nil, the client trusts the system's certificate authorities and
// requires TLS 1.3.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS13} // as in the server
	}
	return func(s *settings) { s.tls = config }
}

// WithToken sends a bearer token with each call. Without TLS, the client connects only to a server on this machine:
// connections to other machines fail.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithAttempts sets the maximum number of attempts, n, of a call that the server refuses for lack of capacity or that
// does not reach a server. The default is 4; with 1 the caller must retry. gRPC waits as long as the server says. If
// the server says nothing, gRPC waits 50 ms, then twice as long each time, up to 1 s. The deadline of the call ends the
// attempts. A request on a [Stream] is sent once. If a server that stops ends the stream, the Stream opens a new one,
// up to n-1 times in a row without an answer.
func WithAttempts(n int) Option { return func(s *settings) { s.attempts = n } }

// WithMaxMessageBytes sets the maximum size of an answer; the default is 16 MiB, as in the server.
func WithMaxMessageBytes(n int) Option { return func(s *settings) { s.maxMessageBytes = n } }

// WithDialOptions adds gRPC options, such as interceptors, credentials that replace those of this package, or a stats
// handler that propagates the trace of a call's context. The client itself uses no tracing library. To spread requests
// over several servers, use grpc.WithDefaultServiceConfig with the output of `weft serviceconfig`; it replaces the
// retries of [WithAttempts].
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// retries is the policy of gRPC's own retries, which respect the server's delay or its word not to retry. Streams are
// left out because their requests have errors of their own.
const retries = `{"methodConfig": [{
	"name": [
		{"service": "weft.v1.PredictionService", "method": "Predict"},
		{"service": "weft.v1.PredictionService", "method": "GetModelMetadata"},
		{"service": "weft.v1.PredictionService", "method": "ReportOutcome"},
		{"service": "weft.v1.ModelService"}
	],
	"retryPolicy": {
		"maxAttempts": %d, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
	}
}]}`

// dialOptions checks the settings and returns the gRPC options for them. The caller's own options come last, so that
// they replace others.
func (s *settings) dialOptions() ([]grpc.DialOption, error) {
	if s.attempts < 1 {
		return nil, fmt.Errorf("WithAttempts(%d): expected at least 1", s.attempts)
	}
	if s.maxMessageBytes < 1 {
		return nil, fmt.Errorf("WithMaxMessageBytes(%d): expected at least 1", s.maxMessageBytes)
	}
	options := []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(s.maxMessageBytes),
			// A larger request is not sent again. gRPC holds the bytes of a call anyway.
			grpc.MaxRetryRPCBufferSize(s.maxMessageBytes),
		),
		grpc.WithTransportCredentials(s.transport()),
	}
	if s.attempts == 1 {
		options = append(options, grpc.WithDisableRetry())
	} else {
		options = append(options, grpc.WithMaxCallAttempts(s.attempts),
			grpc.WithDefaultServiceConfig(fmt.Sprintf(retries, s.attempts)))
	}
	if s.token != "" {
		options = append(options, grpc.WithPerRPCCredentials(&bearer{s.token, s.tls != nil}))
	}
	return append(options, s.dial...), nil
}

// transport returns the credentials of the connection. A token must not leave the machine without TLS.
func (s *settings) transport() credentials.TransportCredentials {
	switch {
	case s.tls != nil:
		return credentials.NewTLS(s.tls)
	case s.token != "":
		return local.NewCredentials() // not encrypted, but refuses other machines
	}
	return insecure.NewCredentials()
}

// bearer sends a token with each call.
type bearer struct {
	token  string
	secure bool // gRPC refuses to send it without TLS
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b *bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b *bearer) RequireTransportSecurity() bool { return b.secure }
