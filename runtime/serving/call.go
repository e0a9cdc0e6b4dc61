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

// taskOf returns the call as a task. Its limit and its target count from the arrival, so that a call which is tried
// again does not have more time.
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
		t.Identity, t.Weight = a.payer.flow, a.payer.weight
	} else if call.Caller != nil && (a.payer.byIdentity || a.payer.flow == "" && r.flow.byIdentity) {
		t.Identity, t.Weight = call.Caller.Name, call.Caller.Weight
	} else {
		t.Identity, t.Weight = a.payer.flow, a.payer.weight
	}
	return t
}

// jobOf returns the call as a job, for one of these ways to run it:
//
//   - with others: by the plan of the unit, which may also split it;
//   - by itself, whole and as it came, where its rows cannot be told apart;
//   - by itself, in the form of a batch: in one execution if it has no more rows than a batch, else split as before.
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

// complete completes the task of a job from its inputs: rows, keys, bytes. It reports whether the job runs as requests
// of callers mostly do, so that its cost says something about theirs.
func (r *Replica) complete(j *execution.Job) (typical bool) {
	t := &j.Task
	t.Rows, t.Payload = j.Rows, j
	typical = j.Plan == nil
	if typical {
		p := r.unit.Plan()
		t.Key, t.ShapeKey = p.Keys(j.Inputs)
		// A request with values that are not proven must not share an execution.
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
	// The key is kept as long as the task waits, and has the values of inputs without rows.
	t.Bytes = int64(len(t.Key))
	for i := range j.Inputs {
		t.Bytes += int64(j.Inputs[i].Size())
	}
	return typical
}

// learn takes what there is to learn from a call that was answered together with others: it earns device time for
// proofs of values, and may be audited.
func (r *Replica) learn(j *execution.Job, call *catalog.Call) {
	if v := r.unit.Plan().Values; v != nil {
		v.Earn(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute))
	}
	r.audit.Observe(audit.Source{
		Replica: r, Bare: r.bare, Tolerance: r.verdict.Tolerance, Rounds: r.verdict.Rounds,
	}, j, call)
}

// worthAgain returns a channel that is closed when a task that ended with err is to be handed to the scheduler once
// more: when its model is open again, or when there is room. A task that was accepted before is not refused because
// many come back at once. Nil: the task has ended.
func worthAgain(err error, accepted bool) <-chan struct{} {
	if reopening, is := errors.AsType[*engine.ReopeningError](err); is {
		return reopening.Done
	}
	refusal, is := errors.AsType[*sharedsched.Refusal](err)
	if !is || !accepted || refusal.Reason != sharedsched.RefusedQueueFull || refusal.RetryAfter < 0 {
		return nil
	}
	// A millisecond at least, so that callers do not ask in a loop.
	room := make(chan struct{})
	time.AfterFunc(max(refusal.RetryAfter, time.Millisecond), func() { close(room) })
	return room
}

// aloneKey begins the key of requests that run by themselves, so that they wait in queues of their own, one per shape.
// A request's own key may begin like that, which does no harm: whether a task runs alone is said by the task.
const aloneKey = "alone"
