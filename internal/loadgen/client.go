package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/certs"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// answerWithin is how long a server may take to answer the questions before a run.
const answerWithin = 10 * time.Second

// client is a number of connections to a server, which requests take in turn: one connection has one TCP window, and a
// bound on the calls that are open on it.
type client struct {
	target string
	speaks protocol
	conns  []*grpc.ClientConn
	next   atomic.Uint64
}

// dial returns a client with that many connections.
func dial(target string, speaks protocol, connections int, over *certs.Client) (*client, error) {
	c := &client{target: target, speaks: speaks}
	// Connections are made by the first calls, or by load.
	options, err := over.DialOptions(target)
	if err != nil {
		return nil, err
	}
	// gRPC's own retries would hide failures from the figures, and a service config might bring deadlines and retries of
	// its own. Answers of any size are read: what is too large is the server's to say.
	options = append(options, grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	for range connections {
		conn, err := grpc.NewClient(target, options...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--target %s: %w", target, err), c.close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

func (c *client) close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// conn returns the connection whose turn it is.
func (c *client) conn() *grpc.ClientConn { return c.conns[c.next.Add(1)%uint64(len(c.conns))] }

// predict is a predictor.
func (c *client) predict(ctx context.Context, q *payload, into *reply) error {
	return c.conn().Invoke(ctx, c.speaks.predict(), q, c.speaks.answer(into), grpc.ForceCodecV2(codec{}))
}

// load asks the server for the model of a stream, builds its requests, and sends the first of them: a mistake in a
// request is reported before anything is measured.
func (c *client) load(ctx context.Context, s *Stream) (*load, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	l := &load{Stream: *s, inFlight: maxInFlight}
	var signature *weftv1.Signature
	for _, conn := range c.conns { // each connects
		var err error
		if signature, l.version, err = c.speaks.about(ctx, conn, s); err != nil {
			return nil, c.explain(s, err)
		}
	}
	var err error
	if l.payloads, err = s.payloads(signature, c.speaks); err != nil {
		return nil, err
	}
	// The protocol may tell the version only with an answer.
	first := &reply{version: l.version}
	err = c.predict(ctx, &l.payloads[0], first)
	l.version = first.version
	// Of other codes a run shows how often they come.
	if slices.Contains([]codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented, codes.OutOfRange,
	}, status.Code(err)) {
		return nil, fmt.Errorf("stream %s: the server refuses its first request: %s", s.Name, status.Convert(err).Message())
	}
	return l, nil
}

// explain says what the user can do about an error of the question for a model.
func (c *client) explain(s *Stream, err error) error {
	st := status.Convert(err)
	switch st.Code() {
	// WaitForReady keeps trying, so that a server that is not there shows as a deadline.
	case codes.DeadlineExceeded, codes.Unavailable:
		do := certs.Advice(st.Message())
		if do == "" {
			do = "name the --listen address of one that runs"
		}
		return fmt.Errorf("--target %s: no server answers (%s); %s", c.target, strings.TrimSpace(st.Message()), do)
	case codes.Unimplemented:
		return fmt.Errorf("--target %s: this server does not speak %s (%s); name the --listen address of one that does, "+
			"or another --protocol", c.target, c.speaks.service(), st.Message())
	default:
		return fmt.Errorf("stream %s: the server at %s: %s", s.Name, c.target, st.Message())
	}
}
