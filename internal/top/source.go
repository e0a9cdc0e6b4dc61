package top

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/ask"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// source is a server, or the demo in its place. An error of its methods is a permanentError if asking again is of no
// use.
type source interface {
	// watch gives what the server does to a function until the context ends, the connection fails, or it says false.
	watch(ctx context.Context, once bool, give func(*weftv1.Activity) bool) error
	// list returns the latest late and lost requests of a model.
	list(ctx context.Context, model string) (*weftv1.ListRequestsResponse, error)
	// explain tells the way of a request, by its caller's name or "#" and the server's number.
	explain(ctx context.Context, request string) (*weftv1.Explanation, error)
	// name is what the user knows it by.
	name() string
	// flags are those with which `weft explain` asks it, each followed by a blank; "" where it cannot.
	flags() string
}

// How a server is watched.
const (
	every    = 250 // milliseconds between updates
	listMost = 1000
)

// live is a running server.
type live struct {
	server *ask.Server
	client *weftclient.Client
	models weftv1.ModelServiceClient
}

// connect returns a server without calling it: a wrong address is the error of the first call.
func connect(server *ask.Server) (*live, error) {
	client, err := server.Dial()
	if err != nil {
		return nil, err
	}
	return &live{server, client, weftv1.NewModelServiceClient(client.Conn())}, nil
}

func (l *live) name() string  { return l.server.Address }
func (l *live) flags() string { return "--address " + l.server.Address + " " }

// permanentError is one after which asking again is of no use.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// wrong says what the user can do about an error. An older server without the call, or one that refuses the caller,
// will not answer differently later: its error is permanent.
func (l *live) wrong(err error, who *peer.Peer) error {
	if err == nil {
		return nil
	}
	said := l.server.Wrong(err, who, 0)
	switch status.Code(err) {
	case codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return permanentError{said}
	default:
		return said
	}
}

// watch asks for the last minute first, and then for what happens. Giving up the call is enough to end it.
func (l *live) watch(ctx context.Context, once bool, give func(*weftv1.Activity) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var who peer.Peer
	q := &weftv1.WatchActivityRequest{BackMs: minute, Once: once}
	// An error of the call itself comes with the first answer, if not here.
	stream, err := l.models.WatchActivity(ctx, q, grpc.Peer(&who))
	if err != nil {
		return l.wrong(err, &who)
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return l.wrong(err, &who)
		}
		if !give(answer.GetActivity()) {
			return nil
		}
	}
}

// list and explain are calls of their own. ctx bounds them, and no timeout: the screen shows that an answer is awaited.
func (l *live) list(ctx context.Context, model string) (*weftv1.ListRequestsResponse, error) {
	var who peer.Peer
	answer, err := l.models.ListRequests(ctx, &weftv1.ListRequestsRequest{Model: model, Limit: listMost}, grpc.Peer(&who))
	return answer, l.wrong(err, &who)
}

func (l *live) explain(ctx context.Context, name string) (*weftv1.Explanation, error) {
	var who peer.Peer
	answer, err := l.models.ExplainRequest(ctx, &weftv1.ExplainRequestRequest{Request: name}, grpc.Peer(&who))
	return answer.GetExplanation(), l.wrong(err, &who)
}
