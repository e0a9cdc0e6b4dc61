package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/sharedsched"
)

// Predict runs the call and fills in Results and Outcome, on the replica that is expected to answer first. It returns
// only when nothing reads call.Inputs any more. The error is a *catalog.ModelError, catalog.ErrNotReady or
// catalog.ErrDeviceLost, wrapped, what the scheduler ends a task with, or the cause of ctx. ErrNotReady comes before
// anything was answered: the caller may choose another version from a newer snapshot.
func (h *Host) Predict(ctx context.Context, call *catalog.Call) error {
	arrival := time.Now()
	waited := time.Duration(0) // in queues that it was taken out of
	for tried := (*replica)(nil); ; {
		// Between the choice of the version and now another one may have taken its place under its number.
		v := h.resident(call.Version)
		var r *replica
		if v != nil {
			r = v.pick(call.Rows)
		}
		if r == nil || r == tried {
			return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
		}
		tried = r
		if !v.ready.Load() {
			continue
		}
		err := h.predict(ctx, r, call, arrival)
		if !errors.Is(err, sharedsched.ErrRemoved) {
			call.Outcome.Queue += waited
			return err
		}
		if r.device.Lost() != nil {
			if err := h.awaitReplica(ctx, call, limitOf(call, arrival)); err != nil {
				return err
			}
		}
		waited = time.Since(arrival)
	}
}

// taskOf returns the call as a task. Its limit and its target count from the arrival.
func taskOf(call *catalog.Call, arrival time.Time) sharedsched.Task {
	t := sharedsched.Task{Limit: limitOf(call, arrival), Target: call.Target, Priority: call.Priority}
	if t.Target > 0 {
		t.Target = max(1, t.Target-time.Since(arrival))
	}
	if call.Rows == 0 { // what there is no row of is joined with nothing, and its cost tells nothing
		t.Alone, t.Unmeasured = true, true
	}
	if call.Shadow {
		t.Priority = sharedsched.Sheddable // fills padding and idle time
	}
	return t
}

// limitOf returns the limit of a call, that of its model if it brought none, or the zero time if there is neither.
func limitOf(call *catalog.Call, arrival time.Time) time.Time {
	if most := call.Version.MaxLatency; call.Limit.IsZero() && most > 0 {
		return arrival.Add(most)
	}
	return call.Limit
}

// predict has a replica answer the call, which may have waited since its arrival.
func (h *Host) predict(ctx context.Context, r *replica, call *catalog.Call, arrival time.Time) (err error) {
	j := &execution.Job{
		Unit: r.unit, Inputs: call.Inputs, Rows: max(1, call.Rows), Wanted: call.Wanted,
		Task: taskOf(call, arrival),
	}
	if call.Rows == 0 {
		j.Plan = r.unjoined() // there is no row to pad or to fill up with
	}
	if call.Outcome, err = h.submit(ctx, r, j); err != nil {
		if undecided, is := errors.AsType[*execution.UndecidedError](err); is {
			return h.predictUndecided(ctx, r, call, arrival, undecided)
		}
		return err
	}
	if call.Results, err = j.Join(); err != nil {
		if r.unit.Plan().Batched {
			if failed, is := errors.AsType[*catalog.ModelError](err); is {
				err = failed.Err
			}
			h.demote(r, err.Error())
		}
		return h.predictAgain(ctx, r, call, arrival, true)
	}
	if v := r.unit.Plan().Values; v != nil {
		v.Earn(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute))
	}
	h.observe(r, j, call)
	return nil
}

// predictUndecided has a replica answer a call that failed beside others.
func (h *Host) predictUndecided(ctx context.Context, r *replica, call *catalog.Call, arrival time.Time,
	undecided *execution.UndecidedError,
) error {
	err := h.predictAgain(ctx, r, call, arrival, undecided.Rowless())
	if twice, is := errors.AsType[*execution.UndecidedError](err); is {
		err = twice.ModelError // it has so many rows that it was split again
	}
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		failed.Mates = undecided.Mates()
	} else if err == nil {
		undecided.Answer()
	}
	return err
}

// predictAgain has a replica answer a call by itself: whole, as it came, where its rows could not be told apart; else
// in an execution that could be a batch's, or, where it has more rows than that, split as before.
func (h *Host) predictAgain(ctx context.Context, r *replica, call *catalog.Call, arrival time.Time,
	asItCame bool,
) error {
	j := &execution.Job{
		Unit: r.unit, Inputs: call.Inputs, Rows: call.Rows, Wanted: call.Wanted,
		Task: taskOf(call, arrival),
	}
	if asItCame {
		j.Plan = r.unjoined()
	}
	j.Task.Alone = asItCame || call.Rows <= r.unit.Plan().Most
	before := call.Outcome
	outcome, err := h.submit(ctx, r, j)
	outcome.Queue, outcome.DeviceTime, outcome.Executions = before.Queue+before.Compute+outcome.Queue,
		before.DeviceTime+outcome.DeviceTime, before.Executions+outcome.Executions
	if call.Outcome = outcome; err != nil {
		return err
	}
	call.Results, err = j.Join()
	return err
}

// submit completes the task of a replica's job from its inputs and waits for its end.
func (h *Host) submit(ctx context.Context, r *replica, j *execution.Job) (sharedsched.Outcome, error) {
	t := &j.Task
	t.Rows, t.Payload = j.Rows, j
	typical := j.Plan == nil
	if typical {
		p := r.unit.Plan()
		t.Key, t.ShapeKey = p.Keys(j.Inputs)
		if p.Values != nil && !t.Alone && !h.proveFirst(r, p, j) {
			t.Alone, j.Plan = true, r.unjoined()
		}
	}
	if j.Plan != nil {
		// They never share an execution, and their rows are not those that a batch waits for.
		_, t.ShapeKey = j.Plan.Keys(j.Inputs)
		t.Key = aloneKey + t.ShapeKey
	}
	t.Bytes = int64(len(t.Key))
	for i := range j.Inputs {
		t.Bytes += int64(len(j.Inputs[i].Data))
	}
	expected := r.expects(t.Rows)
	if t.Priority != sharedsched.Sheddable { // which waits for idle time
		r.await(expected)
		defer r.await(-expected)
	}
	outcome, err := h.sched.Do(ctx, r.id, t)
	r.account(t, expected, typical, &outcome, err)
	return outcome, err
}

// aloneKey begins the name of the queues, one per shape, of what is to run by itself. A request's key may be like it,
// which does no harm.
const aloneKey = "alone"
