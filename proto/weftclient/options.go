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
	defaultMaxMessageBytes = 16 << 20 // as the server has it
)

// Option is an option of [New]. A later one takes the place of an earlier one of the same kind; those of
// [WithDialOptions] add up.
type Option func(*settings)

// settings is what the options of New have set.
type settings struct {
	tls             *tls.Config
	token           string
	attempts        int
	maxMessageBytes int
	dial            []grpc.DialOption
}

// WithTLS has the client speak TLS. Without a config it trusts the certificate authorities of the system.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS13} // as Weft has it
	}
	return func(s *settings) { s.tls = config }
}

// WithToken sends a bearer token with each call. Without TLS it only goes to a server on this machine: connections to
// others fail.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithAttempts sets how often a call is sent in all, where the server refuses it for lack of capacity or is not there.
// It is 4 by default; with 1 the caller must retry. gRPC waits as long as the server says. Where the server says
// nothing, it waits 50 ms, and twice as long each further time, up to 1 s. The deadline of the call ends it. A
// request on a [Stream] is sent once, but for servers that stop: the Stream is opened so often in a row.
func WithAttempts(n int) Option { return func(s *settings) { s.attempts = n } }

// WithMaxMessageBytes sets how large an answer may be; 16 MiB by default, as the server has it.
func WithMaxMessageBytes(n int) Option { return func(s *settings) { s.maxMessageBytes = n } }

// WithDialOptions adds options of gRPC, such as interceptors, credentials that take the place of those here, or a stats
// handler that hands on the trace of a call's context: the client itself knows no tracing library.
// grpc.WithDefaultServiceConfig of what `weft serviceconfig` prints shares requests among several servers, and takes the
// place of the retries of [WithAttempts].
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// retries is the policy of gRPC's own retries, which heed what the server says of when, if at all, a call may be sent
// again. Streams are left out: their requests have errors of their own.
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

// dialOptions checks the settings, and returns the options of gRPC that they make. The caller's own come last, so that
// they take the place of others.
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
			// What is larger is not sent again. gRPC holds the bytes of a call anyway.
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

// transport returns the credentials of the connection. A token without TLS must not leave the machine.
func (s *settings) transport() credentials.TransportCredentials {
	switch {
	case s.tls != nil:
		return credentials.NewTLS(s.tls)
	case s.token != "":
		return local.NewCredentials() // it is in the clear, and refuses to speak to another machine
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
