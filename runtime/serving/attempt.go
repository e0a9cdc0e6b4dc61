package serving

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

// step is what is done with a request. One follows another until the caller has its answer. This is the only loop that
// tries a request again, and this is its order; of the rows of a step the first that fits counts.
//
//	step         what happened                                  next
//	lookUp       a replica is expected to answer                recall
//	             the device was lost, the version comes back    wait for a change, lookUp
//	             else: the version is gone                      end: catalog.ErrNotReady
//	recall       the request is poison                          end: how it ended a process before
//	             an equal one is being retried                  wait for that, recall
//	             it is suspect                                  isolate
//	             nothing is known                               together
//	together,    its model is being opened in a new process     wait for that, the same step
//	alone        accepted before, and now the queue is full     wait for room, the same step
//	             the version or its device left                 lookUp
//	             its run, or its batch's, ended the process     isolate
//	             it failed, and nobody knows by whose fault     alone; the second time isolate
//	together     its outputs cannot be joined                   alone; the version leaves batching
//	isolate      an equal one was retried meanwhile             isolate, unless that one is poison
//	             the version or its device left                 lookUp
//	any          else: an answer, or another error              end
//
// A wait ends with the request's limit, its context, or the scheduler; limit and target count from its arrival. Where
// there is no quarantine nothing is isolated: a request that may have ended the process runs alone, and then ends with
// its error.
//
// Rows that no caller asked for, of proofs and audits, begin with together on a replica that is given. They are not
// looked up and not run alone, and those of proofs wait for room from the beginning.
//
// Outside of this loop are: the choice of another version, by server/predict, because the request is decoded anew for
// it and the circuit breaker hears of each; the line of callers before a full queue (batching.on_full), which only the
// scheduler's lock keeps in order; and the search for the cause in a failed batch (package execution), which is a part
// of its run.
type step uint8

const (
	end      step = iota // the caller gets what there is
	lookUp               // find the version, and the replica that is expected to answer first
	recall               // ask what is known of the request from earlier ones
	together             // have the scheduler run it in a batch
	alone                // have the scheduler run it by itself
	isolate              // run it in quarantine, where nothing else runs
)

// errEqual ends a step in which an equal request was waited for.
var errEqual = errors.New("an equal request was retried")

// errSuspect says that a request is to be run in quarantine only.
var errSuspect = errors.New("the request is suspect")

// Attempt is a request on its way through the steps.
type Attempt struct {
	shared  *Shared
	call    *catalog.Call // nil: no caller asked for it
	arrival time.Time
	limit   time.Time
	replica *Replica // that it is at, or has left; nil: none was found yet
	held    *Version // that is to answer, for a step of a pipeline; nil: the one that there is now
	payer   payer
	now     step

	// Of the present step.
	job      *execution.Job  // nil: not made yet
	begun    bool            // its task is complete
	typical  bool            // other requests of callers cost as much
	accepted bool            // by the scheduler: from now on it waits for room
	expected int64           // the device time that it is expected to take
	charged  int64           // so much of it counts as pending
	until    <-chan struct{} // closed when the step is to be done again; nil: it has ended

	// Of the steps on the replica.
	asItCame  bool // alone it runs whole, in the form in which it came
	isolated  time.Time
	undecided *execution.UndecidedError // the first
	unjoined  bool
	before    sharedsched.Outcome // the sum of the earlier steps
	phases    catalog.Phases      // the same

	ran     bool // it was handed to the scheduler, whatever the replica
	outcome sharedsched.Outcome
}

// Begin makes a, which must be zero, the way of a call that arrives now, for Run. Its limit is that of its model if it
// brought none. It returns nothing, since a copy would take room on the stack of each call.
func (a *Attempt) Begin(s *Shared, call *catalog.Call) {
	a.shared, a.call, a.arrival, a.limit, a.now = s, call, time.Now(), call.Limit, lookUp
	if most := call.Version.MaxLatency; a.limit.IsZero() && most > 0 {
		a.limit = a.arrival.Add(most)
	}
}

// runRow runs a job that no caller asked for on the replica.
func (r *Replica) runRow(ctx context.Context, j *execution.Job) (sharedsched.Outcome, error) {
	a := Attempt{
		shared: r.shared, replica: r, job: j, arrival: time.Now(), limit: j.Task.Limit,
		accepted: j.Task.Identity == Proofs, now: together,
	}
	err := a.Run(ctx)
	return a.outcome, err
}

// Run does one step after the other, and returns the error of the last.
func (a *Attempt) Run(ctx context.Context) (err error) {
	defer a.charge(0)
	for {
		switch a.now {
		case lookUp:
			err = a.lookUp()
		case recall:
			err = a.recall(ctx)
		case together, alone:
			err = a.submit(ctx)
		case isolate:
			err = a.isolate(ctx)
		case end:
			return a.conclude(err)
		}
		if a.until != nil {
			if err := a.shared.await(ctx, a.until, a.limit); err != nil {
				return err
			}
			continue
		}
		a.enter(a.next(a.now, err), err)
	}
}

// next is the table.
func (a *Attempt) next(did step, err error) step {
	if err == nil {
		return [...]step{lookUp: recall, recall: together, together: end, alone: end, isolate: end}[did]
	}
	undecided, is := errors.AsType[*execution.UndecidedError](err)
	is = is && did != isolate
	switch {
	case errors.Is(err, errEqual):
		return did
	case errors.Is(err, errSuspect):
		return isolate
	case did == lookUp, did == recall:
		return end
	case errors.Is(err, sharedsched.ErrRemoved) && a.call != nil:
		return lookUp
	case is && undecided.Crashed() && a.replica.unit.HasQuarantine():
		return isolate
	case a.call == nil:
		return end
	case did == together && a.unjoined, is && a.undecided == nil:
		return alone
	case is && a.replica.unit.HasQuarantine():
		return isolate
	}
	return end
}

// enter prepares for a step that follows one which ended with err.
func (a *Attempt) enter(next step, err error) {
	a.charge(0)
	if a.now = next; a.call == nil {
		return
	}
	undecided, is := errors.AsType[*execution.UndecidedError](err)
	if a.asItCame = a.unjoined; is {
		a.asItCame = undecided.AsItCame()
		a.undecided = cmp.Or(a.undecided, undecided)
	}
	a.job, a.begun, a.accepted = nil, false, false
	switch next {
	case lookUp:
		a.isolated, a.undecided, a.unjoined = time.Time{}, nil, false
		a.before, a.phases = sharedsched.Outcome{}, catalog.Phases{}
	case alone, isolate:
		a.before, a.phases = a.call.Outcome, a.call.Phases
	case end, recall, together:
	}
}

// conclude returns how the request ends by err. Others of its batch have the same error.
func (a *Attempt) conclude(err error) error {
	if a.undecided == nil {
		return err
	}
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		own := *failed
		own.Mates = a.undecided.Mates()
		return &own
	}
	if err == nil {
		a.undecided.Answer()
	}
	return err
}

// charge has so much expected device time count as pending.
func (a *Attempt) charge(expected int64) {
	if expected != a.charged {
		a.replica.await(expected - a.charged)
		a.charged = expected
	}
}

// target returns how soon the answer is wanted now.
func (a *Attempt) target() time.Duration {
	if a.call.Target <= 0 {
		return a.call.Target
	}
	return max(1, a.call.Target-time.Since(a.arrival))
}

// lookUp finds the replica. A request that was taken out of the queue of a lost device waits while its version is
// loaded elsewhere.
func (a *Attempt) lookUp() error {
	version, left, owner := a.call.Version, a.replica, a.shared.Owner
	a.until = nil
	var changed <-chan struct{}
	if left != nil && left.Lost() {
		changed = owner.Changed(version.Model) // before it is looked for
	}
	v, comes := a.held, false
	if v != nil && v.Pick(1) == nil { // its devices are lost
		v, a.held = nil, nil
	}
	if v == nil {
		v, comes = owner.Find(version)
	}
	if v != nil && v.staged() != nil { // it was joined when the call was routed
		v, comes = nil, false
	}
	if v != nil {
		if r := v.Pick(a.call.Rows); r != nil && r != left {
			a.replica = r
			return nil
		}
	}
	if comes || v != nil {
		a.until = changed
	}
	return fmt.Errorf("model %q version %d: %w", version.Model, version.Number, catalog.ErrNotReady)
}

// recall asks what is known of the request, and waits for the retry of an equal one that is under way.
func (a *Attempt) recall(ctx context.Context) error {
	r := a.replica
	switch known := r.shared.quarantine.Find(r.origin(), a.call.Inputs); {
	case known.Retry != nil:
		return cmp.Or(r.awaitRetry(ctx, known.Retry, a.limit), errEqual)
	case known.Suspect != nil && r.unit.HasQuarantine():
		return errSuspect
	default:
		return known.Poison
	}
}

// submit hands the request to the scheduler, and waits for its end.
func (a *Attempt) submit(ctx context.Context) error {
	r := a.replica
	if a.job == nil {
		a.job = r.jobOf(a)
	}
	j := a.job
	t := &j.Task
	if !a.begun {
		a.begun, a.typical = true, r.complete(j)
		a.expected = r.expects(t.Rows)
		if t.Priority != sharedsched.Sheddable { // which waits for idle time
			a.charge(a.expected)
		}
	} else {
		if a.call != nil {
			t.Target = a.target()
		}
		j.Forget()
	}
	began := time.Now()
	outcome, err := r.shared.sched.Do(ctx, r.id, t)
	if a.ran {
		// It has waited since its arrival; the scheduler knows of the latest wait only.
		outcome.Queue += began.Sub(a.arrival)
	}
	a.until = worthAgain(err, a.accepted)
	a.outcome, a.ran, a.accepted = outcome, true, true
	if a.until == nil {
		r.account(t, a.expected, a.typical, &outcome, err)
	}
	if a.call == nil {
		return err
	}
	outcome.DeviceTime += a.before.DeviceTime
	outcome.Executions += a.before.Executions
	a.call.Outcome, a.call.Phases = outcome, a.phases.Plus(j.Phases())
	if err != nil {
		return err
	}
	if a.call.Results, err = j.Join(); err != nil {
		if a.unjoined = true; a.now == together && r.unit.Plan().Batched {
			why := err
			if failed, is := errors.AsType[*catalog.ModelError](err); is {
				why = failed.Err // without the model's name, which the log has anyway
			}
			r.Demote(why.Error())
		}
		return err
	}
	if a.now == together {
		r.learn(j, a.call)
	}
	return nil
}

// isolate runs the request where nothing else runs, outside of the scheduler. If it ends that process too it is the
// cause, and is not run a third time.
func (a *Attempt) isolate(ctx context.Context) (err error) {
	r, call := a.replica, a.call
	if call == nil {
		a.job.Forget()
		a.outcome.DeviceTime, err = r.quarantine(ctx, a.job, a.job.Rows)
		return err
	}
	if a.isolated.IsZero() {
		if a.isolated = time.Now(); a.ran {
			call.Outcome.Queue = a.isolated.Sub(a.arrival) // the batch before gave it nothing
		}
	}
	defer func() {
		call.Outcome.Compute = time.Since(a.isolated)
		call.Outcome.Batch, call.Outcome.Ended = 0, 0
	}()
	known, own := r.retry(call)
	if known.Poison != nil {
		return known.Poison
	}
	if err := r.awaitRetry(ctx, known.Retry, a.limit); err != nil {
		return err
	}
	if own == nil {
		return errEqual
	}
	call.Outcome.Executions++
	if err = known.Retry.Err(); err == nil {
		call.Results, err = own.Join()
	}
	return err
}
