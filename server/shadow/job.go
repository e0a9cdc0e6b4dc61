package shadow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/sharedsched"
)

// job is one request on its way to one shadow. It belongs to one goroutine from when it has entered. Offer is shared by
// the jobs of one request, and read only; bytes is what the job counts as of MaxPendingBytes.
type job struct {
	offer  *Offer
	target Target
	pair   *pair
	bytes  int64
}

// verdict is how a job ended. Of a job that is not Done only Event.Outcome and cause are set.
type verdict struct {
	Event        // without Model, Primary and Shadow, which Mirror.tell adds
	cause string // why it is not Done

	// The following are of jobs that are done.
	differences     []compare.Difference
	primary, shadow time.Duration
	seen            []*compare.Profile
}

// size estimates the memory that an offer holds on to for one shadow, in bytes: inputs and answer of the primary, and
// as much again for the shadow's answer. It counts for each shadow, though they share the primary's tensors.
func (o *Offer) size() int64 {
	n := 0
	for i := range o.Primary.Inputs {
		n += o.Primary.Inputs[i].Size()
	}
	for i := range o.Primary.Results {
		n += 2 * o.Primary.Results[i].Size()
	}
	return int64(n)
}

// end runs a job, waiting for spare device time until Config.Timeout, and compares the answers. No fault of the shadow
// gets out: a panic of an engine is a failure like others.
func (m *Mirror) end(j *job) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			m.config.Logger.Error("panic in a shadow request", "event", "shadow_panicked",
				"model", j.target.Version.Model, "version", j.target.Version.Number, "panic", p,
				"stack", string(debug.Stack()))
			v = unanswered(fmt.Errorf("panic: %v", p))
		}
	}()
	step := j.target.Step
	if step != nil {
		defer step.Leave()
	}
	primary, err := outputsOf(j.offer.Primary)
	if err != nil {
		return unanswered(err)
	}
	call, err := j.call(primary)
	if err != nil {
		return unanswered(err)
	}
	// The primary's own limit does not count: nobody waits for this answer.
	call.Limit = time.Now().Add(m.config.Timeout)
	ctx, cancel := context.WithDeadline(m.life, call.Limit)
	defer cancel()
	if j.offer.Follow != nil {
		ctx = j.offer.Follow(ctx)
	}
	if err := m.predict(ctx, call, step); err != nil {
		return unanswered(err)
	}
	shadow, err := outputsOf(call)
	if err != nil {
		return unanswered(err)
	}
	v.Event = Event{Outcome: Done, Agreed: true}
	v.primary, v.shadow = j.offer.Primary.Outcome.Compute, call.Outcome.Compute
	if v.primary > 0 {
		v.ComputeRatio = float64(v.shadow) / float64(v.primary)
	}
	// One comparison runs at a time, so that they take no more than one processor from the work of answering requests.
	m.comparing.Lock()
	defer m.comparing.Unlock()
	v.differences, v.seen = compare.Outputs(primary, shadow, j.target.Shadow.ToleranceOf)
	for _, d := range v.differences {
		v.Agreed = v.Agreed && d.Agreed
		v.MaxRelative = max(v.MaxRelative, d.MaxRelative)
	}
	return v
}

// predict runs a call, as a step of an episode if there is one. The next step need not wait for the comparison.
func (m *Mirror) predict(ctx context.Context, call *catalog.Call, step Step) (err error) {
	if step != nil {
		if err := step.Enter(ctx, call); err != nil {
			return err
		}
	}
	if call.Rows, err = call.Version.Signature.Rows(call.Inputs); err != nil {
		return fmt.Errorf("the signatures differ: version %d cannot take the request: %w", call.Version.Number, err)
	}
	if err := m.config.Models.Predict(ctx, call); err != nil || step == nil {
		return err
	}
	return step.Commit(call)
}

// unanswered distinguishes the shadow's own failures (Failed) from lack of room, of time or of a version that is ready
// (Dropped), or of the steps before (Skipped). An error that is not known counts as the shadow's own.
func unanswered(err error) verdict {
	v := verdict{Event: Event{Outcome: Failed}, cause: shorten(err.Error(), maxFailureBytes)}
	if errors.Is(err, ErrMissed) {
		v.Outcome = Skipped
		return v
	}
	if _, own := errors.AsType[*catalog.ModelError](err); own {
		return v
	}
	_, refused := errors.AsType[*sharedsched.Refusal](err)
	if refused || slices.ContainsFunc([]error{
		sharedsched.ErrExpired, sharedsched.ErrRemoved, sharedsched.ErrDraining, sharedsched.ErrClosed,
		catalog.ErrNotReady, catalog.ErrUntried, catalog.ErrNotOpen,
		context.DeadlineExceeded, context.Canceled,
	}, func(dropped error) bool { return errors.Is(err, dropped) }) {
		v.Outcome = Dropped
	}
	return v
}

// call returns the primary's call as the shadow takes it, without its rows: tensors are found by name, and of the
// outputs those are wanted that the primary gave. It has the priority Sheddable, so that it only gets time that no
// caller wants. The error says that the shadow cannot take the request.
func (j *job) call(outputs []compare.Output) (call *catalog.Call, err error) {
	version := j.target.Version
	other := version.Signature
	if other == nil {
		return nil, fmt.Errorf("model %q version %d: %w", version.Model, version.Number, catalog.ErrNotReady)
	}
	if err := j.target.Shadow.CheckOutputs(other); err != nil {
		return nil, err
	}
	// Wanted is never nil, which would ask for all outputs, also those that the primary did not give.
	call = &catalog.Call{
		Version: version, Wanted: make([]int, 0, len(outputs)), Priority: sharedsched.Sheddable, Shadow: true,
	}
	if call.Inputs, err = j.inputs(other); err != nil {
		return nil, err
	}
	for i := range outputs {
		at := other.Output(outputs[i].Name)
		if at < 0 {
			return nil, fmt.Errorf("the signatures differ: version %d gives no output %q", version.Number,
				outputs[i].Name)
		}
		call.Wanted = append(call.Wanted, at)
	}
	return call, nil
}

// inputs returns the inputs that came in the order of the shadow's signature. Optional inputs follow the others, and
// are left out where none of them came. Every input that came must be one of the shadow's; one that a step fills may be
// missing.
func (j *job) inputs(other *tensor.Signature) ([]tensor.Tensor, error) {
	call, version := j.offer.Primary, j.target.Version.Number
	came := make(map[string]tensor.Tensor, len(call.Inputs))
	for i, in := range call.Inputs {
		if spec, _ := call.Version.Signature.Takes(i); in.DType != tensor.Invalid {
			came[spec.Name] = in
		}
	}
	inputs, n := make([]tensor.Tensor, other.MostInputs()), len(other.Inputs)
	for i := range inputs {
		spec, optional := other.Takes(i)
		in, is := came[spec.Name]
		switch {
		case is && optional:
			n = len(inputs)
		case !is && !optional && (j.target.Step == nil || !j.target.Version.EpisodeState.Fills(i)):
			return nil, fmt.Errorf("the signatures differ: version %d also takes the input %q", version, spec.Name)
		}
		inputs[i] = in
		delete(came, spec.Name)
	}
	if len(came) > 0 {
		return nil, fmt.Errorf("the signatures differ: version %d takes no input %q", version,
			slices.Min(slices.Collect(maps.Keys(came))))
	}
	return inputs[:n], nil
}

// outputsOf names the results of an answered call. Results come in the order of Wanted, which are indexes of the
// signature's outputs; nil is all of them.
func outputsOf(call *catalog.Call) ([]compare.Output, error) {
	specs := call.Version.Signature.Outputs
	wanted := len(specs)
	if call.Wanted != nil {
		wanted = len(call.Wanted)
	}
	if len(call.Results) != wanted {
		return nil, fmt.Errorf("version %d answered with %d outputs instead of %d", call.Version.Number,
			len(call.Results), wanted)
	}
	outputs := make([]compare.Output, wanted)
	for k := range outputs {
		i := k
		if call.Wanted != nil {
			i = call.Wanted[k]
		}
		outputs[k] = compare.Output{Name: specs[i].Name, Tensor: call.Results[k], BatchDim: specs[i].BatchDim}
		if shown := specs[i].Shown; shown != nil {
			outputs[k].Labels = shown.Labels
		}
	}
	return outputs, nil
}
