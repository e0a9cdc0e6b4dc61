package weftclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// EpisodeOptions are the settings of the steps of an [Episode].
type EpisodeOptions struct {
	// Outputs names the outputs to return; nil: all except the state.
	Outputs  []string
	Priority Priority
	// Target is the latency target of each step; 0: the model's.
	Target time.Duration
	// Attempt is the time after which a step is sent again; 0: the context of [Episode.Step] alone bounds an attempt.
	Attempt time.Duration
	// CheckpointEvery is the number of steps between checkpoints: the answer to a step then also brings the state. The
	// Episode keeps the latest state, and the inputs of the steps since. 0: no checkpoints, so an episode that the server
	// has lost cannot continue.
	CheckpointEvery int
	// State maps each input that the server keeps to the output that becomes it in the next step, as in the pairs of
	// `state` in model.yaml. nil: ask the server. The first step refuses other pairs than the server's, unless the caller
	// may not ask the server.
	State map[string]string
}

// Episode is a closed loop with a model whose state the server keeps. Its steps are numbered, so each counts once,
// however often it is sent. Only one goroutine may use it at a time.
type Episode struct {
	client  *Client
	model   *ModelSpec
	id      string
	options EpisodeOptions
	agreed  bool // the options match the server

	step     uint64   // the latest number
	last     *Request // the step with that number; nil: none
	answered bool     // at least one step was answered
	lost     bool     // the server has lost the episode or a part of it
	outcome  Outcome  // without its numbers
	// With CheckpointEvery: the state inputs of the last checkpoint, and the steps answered since. Before the first
	// checkpoint, since begins with the first step.
	saved Tensors
	since []*Request
}

// Episode returns an episode that begins with its first step. Give each episode an id of its own, such as "robot-7/42".
func (c *Client) Episode(model *ModelSpec, id string, o EpisodeOptions) *Episode {
	return &Episode{client: c, model: model, id: id, options: o}
}

// Step does the next step. Until ctx ends, Step sends it again if the server has no room, if no server is there, and if
// an attempt takes too long. If the server has lost the episode, Step restores the last checkpoint and repeats the
// steps since; the windows of model.yaml begin again. Do not change the inputs before the next checkpoint.
//
// A failed step may have counted. The next step continues after it, because a failed observation is not kept. The error
// with the reason EPISODE_LOST means that there is no checkpoint to restore.
func (e *Episode) Step(ctx context.Context, inputs Tensors) (*Answer, error) {
	o := &e.options
	if o.CheckpointEvery > 0 && !e.agreed {
		if err := e.agree(ctx); err != nil {
			return nil, err
		}
	}
	e.step++
	q := &Request{
		Model: e.model, Inputs: inputs, Outputs: o.Outputs, Episode: e.id, BeginEpisode: !e.answered, Step: e.step,
		Priority: o.Priority, Target: o.Target,
	}
	saves := o.CheckpointEvery > 0 && len(e.since)+1 >= o.CheckpointEvery
	if saves {
		for _, name := range slices.Sorted(maps.Values(o.State)) {
			if !slices.Contains(q.Outputs, name) {
				q.Outputs = append(slices.Clip(q.Outputs), name)
			}
		}
	}
	e.last = q
	answer, err := e.run(ctx, q)
	if err != nil {
		return nil, err
	}
	e.answered = true
	switch {
	case saves:
		return answer, e.save(answer)
	case o.CheckpointEvery > 0:
		e.since = append(e.since, q)
	}
	return answer, nil
}

// agree asks the server which state it keeps, and completes the options or compares them. Otherwise wrong options would
// show only when the episode must begin again.
func (e *Episode) agree(ctx context.Context) error {
	o, name := &e.options, e.model.GetName()
	var about *weftv1.GetModelMetadataResponse
	var found *weftv1.GetModelResponse
	err := e.retried(ctx, func(ctx context.Context, options ...grpc.CallOption) (err error) {
		if about, err = e.client.Metadata(ctx, e.model, options...); err != nil {
			return err
		}
		models := weftv1.NewModelServiceClient(e.client.conn)
		found, err = models.GetModel(ctx, &weftv1.GetModelRequest{Name: name}, options...)
		return errorOf(err)
	})
	switch why, is := errors.AsType[*Error](err); {
	case err == nil:
		if o.State, err = e.stateOf(found.GetModel(), about.GetModel().GetVersion()); err != nil {
			return fmt.Errorf("weftclient: EpisodeOptions of model %q: %w", name, err)
		}
	case !is || why.Code != codes.PermissionDenied && why.Code != codes.Unimplemented:
		return err
	case len(o.State) == 0:
		return fmt.Errorf("weftclient: EpisodeOptions of model %q: expected State, as pairs of state in model.yaml, since "+
			"CheckpointEvery needs it and the server does not tell it: %w", name, err)
	}
	if states := slices.Collect(maps.Values(o.State)); len(o.Outputs) == 0 {
		for _, output := range about.GetSignature().GetOutputs() {
			if !slices.Contains(states, output.GetName()) {
				o.Outputs = append(o.Outputs, output.GetName())
			}
		}
	}
	e.agreed = true
	return nil
}

// stateOf returns the pairs that the server keeps, if State is nil or equal to them. They are those of the version that
// a request gets, or of another version that requests may get.
func (e *Episode) stateOf(model *weftv1.Model, version int64) (map[string]string, error) {
	var kept []*weftv1.KeptInput
	for _, v := range model.GetVersions() {
		ready := e.model.GetVersionChoice() == nil && v.GetState() == weftv1.VersionState_VERSION_STATE_READY
		if mine := v.GetVersion() == version; len(v.GetKeptInputs()) > 0 && (mine || ready && kept == nil) {
			kept = v.GetKeptInputs()
			if mine {
				break
			}
		}
	}
	pairs, faults := map[string]string{}, []string{}
	for _, in := range kept {
		if in.GetWindow() > 0 {
			continue // it has no output to take a checkpoint from
		}
		pairs[in.GetInput()] = in.GetOutput()
		switch output, is := e.options.State[in.GetInput()]; {
		case e.options.State == nil || output == in.GetOutput():
		case !is:
			faults = append(faults, fmt.Sprintf("%q with the output %q is missing", in.GetInput(), in.GetOutput()))
		default:
			faults = append(faults, fmt.Sprintf("%q has the output %q, got %q", in.GetInput(), in.GetOutput(), output))
		}
	}
	for _, input := range slices.Sorted(maps.Keys(e.options.State)) {
		if _, is := pairs[input]; !is {
			faults = append(faults, fmt.Sprintf("%q is no input with an output that the server keeps", input))
		}
	}
	switch {
	case len(pairs) == 0 && len(kept) > 0:
		return nil, errors.New("the server keeps only windows, which have no checkpoint: leave out CheckpointEvery")
	case len(pairs) == 0:
		return nil, errors.New("the server keeps no state (state in model.yaml): leave out CheckpointEvery")
	case len(faults) > 0:
		return nil, fmt.Errorf("in State, %s; leave it out to have the server's", strings.Join(faults, "; "))
	}
	return pairs, nil
}

// save keeps the state in an answer, and leaves in the answer what the caller asked for.
func (e *Episode) save(answer *Answer) error {
	saved := Tensors{}
	for input, output := range e.options.State {
		if saved[input] = answer.Outputs[output]; saved[input] == nil {
			return fmt.Errorf("weftclient: EpisodeOptions.State: the model gave no output %q", output)
		}
	}
	for _, output := range e.options.State {
		if !slices.Contains(e.options.Outputs, output) {
			delete(answer.Outputs, output)
		}
	}
	e.saved, e.since = saved, nil
	return nil
}

// recoveries is how often one step restores the episode: a server that loses it each time does not help.
const recoveries = 3

// run sends a step, and restores the episode before if necessary.
func (e *Episode) run(ctx context.Context, q *Request) (answer *Answer, err error) {
	if !e.lost {
		if answer, err = e.send(ctx, q); !isLost(err) {
			return answer, err
		}
		if e.lost = e.options.CheckpointEvery > 0; !e.lost {
			return nil, err
		}
	}
	for range recoveries {
		if answer, err = e.repeat(ctx, q); !isLost(err) {
			break
		}
	}
	e.lost = err != nil
	return answer, err
}

// repeat begins the episode again, and returns the answer to the last step. The steps get new numbers, because the
// server takes lower numbers than the latest for late copies.
func (e *Episode) repeat(ctx context.Context, q *Request) (answer *Answer, err error) {
	for i, step := range append(slices.Clip(e.since), q) {
		again := *step
		e.step++
		e.last, again.Step = &again, e.step
		if again.BeginEpisode = i == 0; again.BeginEpisode {
			again.Inputs = maps.Clone(step.Inputs)
			maps.Copy(again.Inputs, e.saved)
		}
		if answer, err = e.send(ctx, &again); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// End ends the episode. It sends the latest step again as the last one, which runs only if it has not run. If the
// server has lost the episode, End returns nil.
func (e *Episode) End(ctx context.Context) error {
	if e.last == nil || e.lost {
		return nil
	}
	q := *e.last
	q.BeginEpisode, q.EndOfEpisode = false, true
	if _, err := e.send(ctx, &q); err != nil && !isLost(err) {
		return err
	}
	return nil
}

func isLost(err error) bool {
	e, is := errors.AsType[*Error](err)
	return is && e.Reason == "EPISODE_LOST"
}

// The waits between attempts if the server gives no delay. Each is twice the previous one.
const leastWait, mostWait = 50 * time.Millisecond, time.Second

// send sends a step until it is answered or cannot be.
func (e *Episode) send(ctx context.Context, q *Request) (answer *Answer, err error) {
	err = e.retried(ctx, func(ctx context.Context, options ...grpc.CallOption) (err error) {
		answer, err = e.client.Predict(ctx, q, options...)
		return err
	})
	if o := &e.outcome; err == nil {
		if o.Model = Version(answer.Model, answer.Version); !slices.Contains(o.Tables, answer.Table) {
			o.Tables = append(o.Tables, answer.Table)
		}
	}
	return answer, err
}

// Outcome returns the model, the id and the tables of the episode for [Client.ReportOutcome]. The caller adds its
// numbers.
func (e *Episode) Outcome() *Outcome {
	o := e.outcome
	o.Episode, o.Tables = e.id, slices.Clone(o.Tables)
	return &o
}

// retried repeats a call until it succeeds or cannot succeed. A deadline error has the text of the last refusal.
func (e *Episode) retried(ctx context.Context, call func(context.Context, ...grpc.CallOption) error) error {
	var refusal *Error
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		err := e.attempt(ctx, call)
		why, is := errors.AsType[*Error](err)
		if !is {
			return err
		}
		after, again := why.RetryAfter()
		switch {
		case again:
		case why.Code == codes.Unavailable:
			after, again = wait, true
		case why.Code == codes.DeadlineExceeded:
			again = e.options.Attempt > 0
		}
		switch {
		case why.Code != codes.DeadlineExceeded:
			refusal = why
		case refusal != nil && why.Reason == "":
			why = why.after(refusal)
		}
		if !again {
			return why
		}
		select {
		case <-ctx.Done():
			return why
		case <-time.After(after):
			if ctx.Err() != nil {
				return why
			}
		}
	}
}

func (e *Episode) attempt(ctx context.Context, call func(context.Context, ...grpc.CallOption) error) error {
	if e.options.Attempt > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.options.Attempt)
		defer cancel()
	}
	// No buffer turns off gRPC's own retries, which at the deadline would not report the last refusal.
	return call(ctx, grpc.MaxRetryRPCBufferSize(0))
}
