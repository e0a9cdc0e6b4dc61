package serving

import (
	"cmp"
	"errors"
	"time"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/sharedsched"
)

// taskOf returns the call as a task. Its limit and its target count from the arrival.
func (r *Replica) taskOf(a *Attempt) sharedsched.Task {
	call := a.call
	t := sharedsched.Task{
		Limit: a.limit, OpenEnded: call.Limit.IsZero(), Target: a.target(), Priority: call.Priority,
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

// jobOf returns the call as a job: with others, or, by itself, whole, as it came, where its rows could not be told
// apart; else in an execution that could be a batch's, or, where it has more rows than that, split as before.
func (r *Replica) jobOf(a *Attempt) *execution.Job {
	call := a.call
	j := &execution.Job{
		Unit: r.unit, Inputs: call.Inputs, Rows: max(1, call.Rows), Wanted: call.Wanted, Task: r.taskOf(a),
		Memory: call.Memory,
	}
	asItCame := call.Alone() || a.now == alone && a.asItCame
	if asItCame {
		j.Plan = r.unjoined()
	}
	if a.now == alone {
		j.Task.Alone = asItCame || call.Rows <= r.unit.Plan().Most
	}
	return j
}

// complete completes the task of a job from its inputs, and reports whether it runs as requests of callers mostly do.
func (r *Replica) complete(j *execution.Job) (typical bool) {
	t := &j.Task
	t.Rows, t.Payload = j.Rows, j
	typical = j.Plan == nil
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
	return typical
}

// learn takes what there is to learn from a call that was answered together with others.
func (r *Replica) learn(j *execution.Job, call *catalog.Call) {
	if v := r.unit.Plan().Values; v != nil {
		v.Earn(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute))
	}
	r.audit.Observe(audit.Source{
		Replica: r, Bare: r.bare, Tolerance: r.verdict.Tolerance, Rounds: r.verdict.Rounds,
	}, j, call)
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
	time.AfterFunc(max(refusal.RetryAfter, time.Millisecond), func() { close(room) })
	return room
}

// aloneKey begins the name of the queues, one per shape, of requests that are to run by themselves. A request's key may
// be like it, which does no harm.
const aloneKey = "alone"
