package weftclient

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Client is a client of one server. It is safe for concurrent use.
type Client struct {
	conn        *grpc.ClientConn
	predictions weftv1.PredictionServiceClient
	attempts    int
}

// New returns a client of the server at a gRPC target, such as HOST:PORT or unix:/PATH. The client connects with the
// first call, and again after it loses the connection. Without options the connection is not encrypted.
func New(target string, options ...Option) (*Client, error) {
	s := settings{attempts: defaultAttempts, maxMessageBytes: defaultMaxMessageBytes}
	for _, o := range options {
		o(&s)
	}
	dial, err := s.dialOptions()
	if err != nil {
		return nil, fmt.Errorf("weftclient: %w", err)
	}
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("weftclient: target %q: %w", target, err)
	}
	return &Client{conn: conn, predictions: weftv1.NewPredictionServiceClient(conn), attempts: s.attempts}, nil
}

// Close closes the connection. Calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// Conn returns the connection, for services for which Client has no methods.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Predict returns a model's outputs. If the rows of the model are independent, requests of several callers share
// executions.
func (c *Client) Predict(ctx context.Context, q *Request, options ...grpc.CallOption) (*Answer, error) {
	ctx = Beside(ctx, q.Model.GetName(), q.Episode)
	answer, err := c.predictions.Predict(ctx, q.message(), options...)
	if err != nil {
		return nil, errorOf(err)
	}
	return answerOf(answer), nil
}

// Metadata returns the signature of a model, and how it is served.
func (c *Client) Metadata(ctx context.Context, model *ModelSpec, options ...grpc.CallOption,
) (*weftv1.GetModelMetadataResponse, error) {
	answer, err := c.predictions.GetModelMetadata(ctx, &weftv1.GetModelMetadataRequest{Model: model}, options...)
	return answer, errorOf(err)
}

// Models returns every model that the server knows, ascending by name, with the state of its versions.
func (c *Client) Models(ctx context.Context, options ...grpc.CallOption) ([]*weftv1.Model, error) {
	answer, err := weftv1.NewModelServiceClient(c.conn).ListModels(ctx, &weftv1.ListModelsRequest{}, options...)
	return answer.GetModels(), errorOf(err)
}

// Outcome is how an episode went: 1 to 16 numbers in Reward, Success and Metrics together.
type Outcome struct {
	// Model is the model and version in the answers: Version(answer.Model, answer.Version). Without a version, the server
	// uses the version that it remembers for the episode.
	Model   *ModelSpec
	Episode string
	Reward  *float64 // sum of the rewards
	Success *bool
	Metrics map[string]float64 // further numbers by name
	// Tables are the different values of [Answer.Table]. A comparison ignores an episode with more than one.
	Tables []string
}

// ReportOutcome reports how an episode went, so that versions can be compared, and ends the episode. A later report of
// the same episode replaces the earlier one. The answer lists the numbers that the server did not keep, with the
// reasons.
func (c *Client) ReportOutcome(ctx context.Context, o *Outcome, options ...grpc.CallOption,
) (*weftv1.ReportOutcomeResponse, error) {
	ctx = Beside(ctx, o.Model.GetName(), o.Episode)
	answer, err := c.predictions.ReportOutcome(ctx, &weftv1.ReportOutcomeRequest{
		Model: o.Model, EpisodeId: o.Episode, Reward: o.Reward, Success: o.Success, Metrics: o.Metrics, Tables: o.Tables,
	}, options...)
	return answer, errorOf(err)
}

// Beside returns a context whose calls also send the model and the episode as metadata, so that proxies and hash rings
// find the server of the episode. Use it for [Client.PredictStream] if all requests of the stream belong to one
// episode; Predict and ReportOutcome do this themselves. A name with other characters than printable ASCII, or with
// space around it, is left out.
func Beside(ctx context.Context, model, episode string) context.Context {
	var pairs []string
	for _, pair := range [][2]string{{"weft-model", model}, {"weft-episode", episode}} {
		foreign := func(r rune) bool { return r < ' ' || r > '~' }
		if v := pair[1]; v != "" && v == strings.TrimSpace(v) && !strings.ContainsFunc(v, foreign) {
			pairs = append(pairs, pair[:]...)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}
