package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/examples/plant"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// Names of the tensors of a policy.
const (
	observationName = "observation" // [batch, observations] float32
	actionName      = "action"      // [batch, actions] float32
)

// outcome says how a call ended.
type outcome int

const (
	answered outcome = iota
	late             // no answer within the deadline
	refused          // the server would not queue it: overload, or a deadline that cannot be met
	failed           // anything else
)

// observation is one question of one machine.
type observation struct {
	version version
	episode string
	last    bool // of the episode, as far as is known before the machine moves
	values  []float32
}

// answer is the outcome of an observation: either an error, or the fields below it.
type answer struct {
	outcome outcome
	err     error         // nil if and only if answered
	latency time.Duration // as the machine saw it
	action  []float32
	version int64 // the one that ran
	rows    int32 // rows of the execution that it shared
}

// client asks one model for the actions of one kind of machine. It is safe for concurrent use.
type client struct {
	*weftclient.Client
	model string
	kind  plant.Kind
}

// check finds out whether the server can steer the machines with that version. If not, the error says what to do.
func (c *client) check(ctx context.Context, v version) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var server peer.Peer
	metadata, err := c.Metadata(ctx, v.spec(c.model), grpc.Peer(&server))
	if err != nil {
		if server.Addr == nil {
			return fmt.Errorf("no Weft server answers at %s (%s): start one with `go run ./cmd/weft serve "+
				"examples/models` or name another with --addr",
				c.Conn().Target(), status.Convert(err).Message())
		}
		return fmt.Errorf("the server at %s cannot steer with model %s: %w", c.Conn().Target(), c.model, err)
	}
	signature := metadata.GetSignature()
	for _, want := range []struct {
		name  string
		specs []*weftv1.TensorSpec
		width int
	}{
		{observationName, signature.GetInputs(), c.kind.ObservationSize},
		{actionName, signature.GetOutputs(), c.kind.ActionSize},
	} {
		if !slices.ContainsFunc(want.specs, func(s *weftv1.TensorSpec) bool { return fits(s, want.name, want.width) }) {
			return fmt.Errorf("model %s does not fit machine %q: it has no float32 tensor %q [batch, %d] but %v; name "+
				"the machine that it was made for with --machine",
				c.model, c.kind.Name, want.name, want.width, want.specs)
		}
	}
	return nil
}

// fits reports whether a tensor is of that name and of shape [any, width].
func fits(s *weftv1.TensorSpec, name string, width int) bool {
	shape := s.GetShape()
	return s.GetName() == name && s.GetDtype() == weftv1.DataType_DATA_TYPE_FP32 &&
		len(shape) == 2 && (shape[1] == int64(width) || shape[1] == -1)
}

// report sends the result of an episode to the server. One that is lost is one less to compare.
func (c *client) report(ctx context.Context, e *episode) {
	if e.served == 0 || e.mixed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = c.ReportOutcome(ctx, &weftclient.Outcome{
		Model: weftclient.Version(c.model, e.served), Episode: e.name, Reward: new(e.sum),
	})
}

// act asks for one action; the deadline is that of ctx.
func (c *client) act(ctx context.Context, o observation) answer {
	start := time.Now()
	response, err := c.Predict(ctx, &weftclient.Request{
		Model:   o.version.spec(c.model),
		Inputs:  weftclient.Tensors{observationName: weftclient.FromSlice(o.values, 1, int64(len(o.values)))},
		Outputs: []string{actionName},
		Episode: o.episode, EndOfEpisode: o.last,
	})
	latency := time.Since(start)
	switch status.Code(err) {
	case codes.OK:
	case codes.DeadlineExceeded:
		return answer{outcome: late, err: err}
	case codes.ResourceExhausted:
		return answer{outcome: refused, err: err}
	default:
		return answer{outcome: failed, err: err}
	}
	action, err := weftclient.Values[float32](response.Outputs[actionName])
	if err == nil && len(action) != c.kind.ActionSize {
		err = fmt.Errorf("the answer has %d values in %q, want %d", len(action), actionName, c.kind.ActionSize)
	}
	if err != nil {
		return answer{outcome: failed, err: err}
	}
	return answer{
		latency: latency, action: action, version: response.Version, rows: response.Execution.GetBatchRows(),
	}
}
