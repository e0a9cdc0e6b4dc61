package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	model   string
	kind    plant.Kind
	reports bool // the result of each episode, to the server

	// Where the server keeps the state of episodes:
	keeps      bool
	checkpoint int      // after how many steps the state is fetched; 0: never
	live       sync.Map // by name, of *weftclient.Episode
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
	signature, window := metadata.GetSignature(), 1
	if in := signature.GetInputs(); len(in) != 1 || !fits(in[0], observationName, c.kind.ObservationSize) {
		if window, err = c.findState(ctx); err != nil {
			return err
		}
	}
	for _, want := range []struct {
		name  string
		specs []*weftv1.TensorSpec
		width int
	}{
		{observationName, signature.GetInputs(), c.kind.ObservationSize * window},
		{actionName, signature.GetOutputs(), c.kind.ActionSize},
	} {
		if !slices.ContainsFunc(want.specs, func(s *weftv1.TensorSpec) bool { return fits(s, want.name, want.width) }) {
			return fmt.Errorf("model %s does not fit machine %q: it has no float32 tensor %q [batch, %d] but %v; name "+
				"the machine that it was made for with --machine",
				c.model, c.kind.Name, want.name, want.width, want.specs)
		}
	}
	if c.checkpoint > 0 && !c.keeps {
		return fmt.Errorf("--checkpoint %d: the server keeps no state of model %s (state in model.yaml); leave it out",
			c.checkpoint, c.model)
	}
	return nil
}

// findState finds out which inputs the server keeps for a model with inputs that no machine shows, and returns how many
// observations the model takes.
func (c *client) findState(ctx context.Context) (window int, err error) {
	a, err := weftv1.NewModelServiceClient(c.Conn()).GetModel(ctx, &weftv1.GetModelRequest{Name: c.model})
	if err != nil {
		return 0, fmt.Errorf("ask which state model %s has: %w", c.model, err)
	}
	window = 1
	for _, of := range a.GetModel().GetVersions() {
		for _, in := range of.GetKeptInputs() {
			c.keeps = true
			if in.GetInput() == observationName && in.GetWindow() > 0 {
				window = int(in.GetWindow())
			}
		}
	}
	return window, nil
}

// fits reports whether a tensor is of that name and of shape [any, width].
func fits(s *weftv1.TensorSpec, name string, width int) bool {
	shape := s.GetShape()
	return s.GetName() == name && s.GetDtype() == weftv1.DataType_DATA_TYPE_FP32 &&
		len(shape) == 2 && (shape[1] == int64(width) || shape[1] == -1)
}

// finish ends an episode whose state the server keeps, and sends the result of it to the server if that is wanted. One
// that is lost is one less to compare.
func (c *client) finish(ctx context.Context, e *episode) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if live, is := c.live.LoadAndDelete(e.name); is {
		_ = live.(*weftclient.Episode).End(ctx) // else it ends when it has been idle
	}
	if !c.reports || e.served == 0 || e.mixed {
		return
	}
	_, _ = c.ReportOutcome(ctx, &weftclient.Outcome{
		Model: weftclient.Version(c.model, e.served), Episode: e.name, Reward: new(e.sum),
	})
}

// ask sends an observation.
func (c *client) ask(ctx context.Context, o observation) (*weftclient.Answer, error) {
	model, outputs := o.version.spec(c.model), []string{actionName}
	inputs := weftclient.Tensors{observationName: weftclient.FromSlice(o.values, 1, int64(len(o.values)))}
	if !c.keeps {
		return c.Predict(ctx, &weftclient.Request{
			Model: model, Inputs: inputs, Outputs: outputs, Episode: o.episode, EndOfEpisode: o.last,
		})
	}
	live, _ := c.live.LoadOrStore(o.episode, c.Episode(model, o.episode, weftclient.EpisodeOptions{
		Outputs: outputs, CheckpointEvery: c.checkpoint,
	}))
	return live.(*weftclient.Episode).Step(ctx, inputs)
}

// act asks for one action; the deadline is that of ctx.
func (c *client) act(ctx context.Context, o observation) answer {
	start := time.Now()
	response, err := c.ask(ctx, o)
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
