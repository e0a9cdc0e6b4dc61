package serving

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/sharedsched"
)

// taskOf returns the call as a task. Its limit and its target count from the arrival.
func (r *Replica) taskOf(call *catalog.Call, arrival time.Time) sharedsched.Task {
	t := sharedsched.Task{
		Limit: LimitOf(call, arrival), OpenEnded: call.Limit.IsZero(), Target: call.Target, Priority: call.Priority,
	}
	if t.Target > 0 {
		t.Target = max(1, t.Target-time.Since(arrival))
	}
	if call.Alone() { // its cost says nothing of others
		t.Alone, t.Unmeasured = true, true
	}
	if call.Shadow {
		t.Priority = sharedsched.Sheddable // fills padding and idle time
	} else if call.Caller != nil && r.flow.byIdentity {
		t.Identity, t.Weight = call.Caller.Name, call.Caller.Weight
	}
	return t
}

// LimitOf returns the limit of a call, that of its model if it brought none, or the zero time if there is neither.
func LimitOf(call *catalog.Call, arrival time.Time) time.Time {
	if most := call.Version.MaxLatency; call.Limit.IsZero() && most > 0 {
		return arrival.Add(most)
	}
	return call.Limit
}

// Predict makes the replica answer the call, which may have waited since its arrival.
func (r *Replica) Predict(ctx context.Context, call *catalog.Call, arrival time.Time) error {
	suspect, err := r.awaitVerdict(ctx, call, arrival)
	if err != nil {
		return err
	}
	if suspect && r.unit.HasQuarantine() {
		return r.predictQuarantined(ctx, call, arrival)
	}
	j := &execution.Job{
		Unit: r.unit, Inputs: call.Inputs, Rows: max(1, call.Rows), Wanted: call.Wanted,
		Task: r.taskOf(call, arrival), Memory: call.Memory,
	}
	if call.Alone() {
		j.Plan = r.unjoined()
	}
	call.Outcome, err = r.submit(ctx, j)
	if call.Phases = j.Phases(); err != nil {
		return r.settle(ctx, call, arrival, err)
	}
	if call.Results, err = j.Join(); err != nil {
		if r.unit.Plan().Batched {
			if failed, is := errors.AsType[*catalog.ModelError](err); is {
				err = failed.Err
			}
			r.Demote(err.Error())
		}
		return r.settle(ctx, call, arrival, r.predictAgain(ctx, call, arrival, true))
	}
	if v := r.unit.Plan().Values; v != nil {
		v.Earn(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute))
	}
	r.audit.Observe(audit.Source{
		Replica: r, Bare: r.bare, Tolerance: r.verdict.Tolerance, Rounds: r.verdict.Rounds,
	}, j, call)
	return nil
}

// settle makes a replica answer a call that ended with an error, if it is undecided whether that is the call's fault.
// It returns other errors as they are.
func (r *Replica) settle(ctx context.Context, call *catalog.Call, arrival time.Time, err error) error {
	undecided, is := errors.AsType[*execution.UndecidedError](err)
	if !is {
		return err
	}
	if !r.suspects(err) {
		err = r.predictAgain(ctx, call, arrival, undecided.AsItCame())
		_, is = errors.AsType[*execution.UndecidedError](err) // it has so many rows that it was split, or it crashes
	}
	if is && r.unit.HasQuarantine() {
		err = r.predictQuarantined(ctx, call, arrival)
	}
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		own := *failed // others that it was in a batch with have the same
		own.Mates = undecided.Mates()
		return &own
	}
	if err == nil {
		undecided.Answer()
	}
	return err
}

// predictAgain makes a replica answer a call by itself: whole, as it came, where its rows could not be told apart; else
// in an execution that could be a batch's, or, where it has more rows than that, split as before.
func (r *Replica) predictAgain(ctx context.Context, call *catalog.Call, arrival time.Time,
	asItCame bool,
) error {
	j := &execution.Job{
		Unit: r.unit, Inputs: call.Inputs, Rows: max(1, call.Rows), Wanted: call.Wanted,
		Task: r.taskOf(call, arrival), Memory: call.Memory,
	}
	if asItCame = asItCame || call.Alone(); asItCame {
		j.Plan = r.unjoined()
	}
	j.Task.Alone = asItCame || call.Rows <= r.unit.Plan().Most
	before := call.Outcome
	outcome, err := r.submit(ctx, j)
	outcome.Queue, outcome.DeviceTime, outcome.Executions = before.Queue+before.Compute+outcome.Queue,
		before.DeviceTime+outcome.DeviceTime, before.Executions+outcome.Executions
	call.Phases = call.Phases.Plus(j.Phases())
	if call.Outcome = outcome; err != nil {
		return err
	}
	call.Results, err = j.Join()
	return err
}

// submit completes the task of the replica's job from its inputs and waits for its end.
func (r *Replica) submit(ctx context.Context, j *execution.Job) (sharedsched.Outcome, error) {
	t := &j.Task
	t.Rows, t.Payload = j.Rows, j
	typical := j.Plan == nil
	if typical {
		p := r.unit.Plan()
		t.Key, t.ShapeKey = p.Keys(j.Inputs)
		if p.Values != nil && !t.Alone && !r.proveFirst(p, j) {
			t.Alone, j.Plan = true, r.unjoined()
		}
	}
	if j.Plan != nil {
		_, t.ShapeKey = j.Plan.Keys(j.Inputs)
	}
	if j.Plan != nil || t.Identity == Proofs {
		// They never share an execution, and a batch does not wait for their rows.
		t.Key = aloneKey + t.ShapeKey
	}
	t.Bytes = int64(len(t.Key))
	for i := range j.Inputs {
		t.Bytes += int64(j.Inputs[i].Size())
	}
	expected := r.expects(t.Rows)
	if t.Priority != sharedsched.Sheddable { // which waits for idle time
		r.await(expected)
		defer r.await(-expected)
	}
	first := time.Now()
	for accepted := false; ; accepted = true {
		began := time.Now()
		outcome, err := r.shared.sched.Do(ctx, r.id, t)
		again := worthAgain(err, accepted)
		if again == nil {
			if accepted {
				outcome.Queue += began.Sub(first)
			}
			r.account(t, expected, typical, &outcome, err)
			return outcome, err
		}
		if err := r.shared.Await(ctx, again, t.Limit); err != nil {
			return outcome, err
		}
		if t.Target > 0 {
			t.Target = max(1, t.Target-time.Since(began))
		}
		j.Forget()
	}
}

// worthAgain returns a channel that is closed when a task that ended with err is to be handed to the scheduler once
// more: one that was accepted before is not refused because many come at once when their model is open again. Nil: it
// has ended.
func worthAgain(err error, accepted bool) <-chan struct{} {
	if reopening, is := errors.AsType[*engine.ReopeningError](err); is {
		return reopening.Done
	}
	refusal, is := errors.AsType[*sharedsched.Refusal](err)
	if !is || !accepted || refusal.Reason != sharedsched.RefusedQueueFull || refusal.RetryAfter < 0 {
		return nil
	}
	room := make(chan struct{})
	time.AfterFunc(refusal.RetryAfter, func() { close(room) })
	return room
}

// aloneKey begins the name of the queues, one per shape, of requests that are to run by themselves. A request's key may
// be like it, which does no harm.
const aloneKey = "alone"
