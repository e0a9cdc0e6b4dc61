package weftclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

// EpisodeOptions says how the steps of an [Episode] are asked for.
type EpisodeOptions struct {
	// Outputs names the outputs that are wanted; nil: all but the state. With CheckpointEvery they must be named.
	Outputs  []string
	Priority Priority
	// Target is how soon each answer is wanted. 0: the model's target.
	Target time.Duration
	// Attempt is how long a step may take before it is sent again. 0: as long as the context of [Episode.Step] allows.
	Attempt time.Duration
	// CheckpointEvery is after how many steps the state is fetched, with an answer. Until the next time the Episode keeps
	// it, and the inputs of the steps since. 0: never, so that an episode that the server has lost is lost.
	CheckpointEvery int
	// State has, for each input that is kept, the output that it is in the next step, as pairs of state in model.yaml.
	State map[string]string
}

// Episode is a closed loop with a model whose state the server keeps. Its steps are numbered, so each counts once,
// however often it must be sent. One goroutine at a time uses it.
type Episode struct {
	client  *Client
	model   *ModelSpec
	id      string
	options EpisodeOptions

	step     uint64   // the latest number
	last     *Request // which has that; nil: there was none
	answered bool     // a step was
	lost     bool     // the server does not have it, or not all of it
	// With CheckpointEvery: the state inputs of the last checkpoint, and the steps that were answered since. Without a
	// checkpoint it is the beginning.
	saved Tensors
	since []*Request
}

// Episode returns an episode that begins with its first step. Each has an id of its own, such as "robot-7/42".
func (c *Client) Episode(model *ModelSpec, id string, o EpisodeOptions) *Episode {
	return &Episode{client: c, model: model, id: id, options: o}
}

// Step does the next step. Until ctx ends it is sent again where the server has no room or is not there, and where an
// attempt took too long. If the server has lost the episode, it begins again from the last checkpoint, and the steps
// since are repeated; windows of model.yaml begin anew then. The inputs must not change until the next checkpoint.
//
// A step that failed may have counted or not, and the next one goes on after it: observations are not kept for later.
// The error with the reason EPISODE_LOST says that there is no checkpoint to begin from.
func (e *Episode) Step(ctx context.Context, inputs Tensors) (*Answer, error) {
	o := &e.options
	if o.CheckpointEvery > 0 && (len(o.Outputs) == 0 || len(o.State) == 0) {
		return nil, errors.New("weftclient: EpisodeOptions: expected Outputs and State, since CheckpointEvery needs both")
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

// save keeps the state that came with an answer, and leaves there what its caller wants.
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

// recoveries is how often a step has the episode begun again: a server that loses it each time is no help.
const recoveries = 3

// run sends a step, and begins the episode again before that if it must.
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

// repeat begins the episode again, and returns the answer to the last step. The steps get new numbers: the server takes
// lower ones than it has seen for late copies.
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

// End ends the episode: its latest step, sent again as the last one, runs only if it has not run. It is no error that
// the server has lost the episode.
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

// The waits between attempts where the server says nothing. Each is twice the one before.
const leastWait, mostWait = 50 * time.Millisecond, time.Second

// send sends a step until it is answered, or cannot be. gRPC's own retries are within each attempt.
func (e *Episode) send(ctx context.Context, q *Request) (*Answer, error) {
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		answer, err := e.attempt(ctx, q)
		why, is := errors.AsType[*Error](err)
		if !is {
			return answer, err
		}
		after, known := why.RetryAfter()
		switch {
		case known:
		case why.Code == codes.Unavailable:
			after = wait
		case why.Code == codes.DeadlineExceeded && e.options.Attempt > 0:
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(after):
			if ctx.Err() != nil {
				return nil, err
			}
		}
	}
}

func (e *Episode) attempt(ctx context.Context, q *Request) (*Answer, error) {
	if e.options.Attempt > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.options.Attempt)
		defer cancel()
	}
	return e.client.Predict(ctx, q)
}
