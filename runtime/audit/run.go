package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// patience is how long an audit waits for the device to be idle. Its priority is Sheddable, so that it delays no
	// request.
	patience = 10 * time.Second
	// tries is how often a row with a finding is run if it fails by itself, and between is the time between two tries.
	tries   = 3
	between = time.Second
)

// run audits one row after the other until no row is due. Only one run of an auditor is under way (Auditor.running).
func (a *Auditor) run(ctx context.Context) {
	for {
		k, passed := a.take()
		if k == nil {
			return
		}
		a.tell(Budget, passed)
		a.tell(a.audit(ctx, k), 1)
		a.cfg.Memory.Release(k.bytes)
	}
}

// audit compares the answer that a row got in its batch with its result alone, and draws the consequences. The order is
// from cheap to certain:
//
//   - An equal result ends it.
//   - The row is run alone twice more. Outputs that differ between these runs are random, and are left out from now on.
//   - A small difference may be rounding. The row is run in a batch of its own copies: if it gets the same answer
//     there, the other requests of its batch have no part in the difference.
//   - Otherwise the batch has changed an answer. The version is taken out of batching, unless its manifest insists.
func (a *Auditor) audit(ctx context.Context, k *row) Result {
	like := &k.Audited
	if a.known().LeftOut(like, len(k.outputs)) {
		return Nondeterministic
	}
	answers, err := a.again(ctx, k, true,
		sharedsched.Task{Priority: sharedsched.Sheddable, Limit: time.Now().Add(patience)})
	if err != nil {
		if _, is := errors.AsType[*catalog.ModelError](err); is {
			return Failed
		}
		return Busy // or on its way out
	}
	alone := answers[0]
	a.compared.Add(1)
	began := time.Now()
	found := a.learn(k, alone).Compare(like, k.outputs, alone)
	a.show(k, alone)
	a.work(time.Since(began))
	if !found.Wrong() {
		return Equal
	}
	// A row that answers differently each time says nothing about its mates.
	for range 2 {
		again, gone := a.surely(ctx, k, true)
		if gone {
			return Failed
		}
		if again != nil {
			a.leaveOut(k, again[0], alone)
		}
	}
	if found = a.known().Compare(like, k.outputs, alone); !found.Wrong() {
		return Nondeterministic
	}
	if found.Rounding {
		copies, gone := a.surely(ctx, k, false)
		if gone {
			return Failed
		}
		// In some place: kernels may treat them differently.
		if slices.ContainsFunc(copies,
			func(one []tensor.Tensor) bool { return !a.known().Compare(like, k.outputs, one).Wrong() }) {
			return Rounding
		}
	}
	a.different.Add(1)
	// Without this one.
	before := a.compared.Load() - 1
	why := fmt.Sprintf("an audit of live batches found that %s, after %d that found nothing", found.Text, before)
	// Unless batching.mode is on, batches are formed only as long as they change no answer.
	if !k.replica.Plan().Watch.Trusted {
		k.replica.Demote(why)
		return Different
	}
	if a.told.CompareAndSwap(false, true) {
		a.cfg.Log.Warn("batches change answers", "event", "batches_change_answers",
			"model", a.model, "version", a.version, "cause", why, "kept", "batching, because batching.mode is on")
		a.remark(why)
	}
	return Different
}

// leaveOut ends the comparison of the outputs that differ each time the row is run alone, and says so in the remarks.
// If no output is left, the audits of the version end.
func (a *Auditor) leaveOut(k *row, again, alone []tensor.Tensor) {
	outputs := k.Outputs
	left := a.known().Random(&k.Audited, again, alone)
	if len(left) == 0 {
		return
	}
	a.mu.Lock()
	a.seen = a.seen.Without(left)
	all := a.seen.AllLeftOut(len(outputs))
	a.mu.Unlock()
	if all {
		a.End()()
	}
	for _, o := range left {
		a.remark(fmt.Sprintf("output %q is not audited, because it is something else each time a row is run alone",
			outputs[o].Name))
	}
}

// surely runs a row with a finding again, until it has been run: it is tried again while the device is busy, and on
// another replica if the device is lost. answers is nil if the row fails for reasons of its own, tries times. gone says
// that no device is left that serves by the proof under which the row was answered.
func (a *Auditor) surely(ctx context.Context, k *row, alone bool) (answers [][]tensor.Tensor, gone bool) {
	for failed := 0; failed < tries && !k.crashed; {
		answers, err := a.again(ctx, k, alone, sharedsched.Task{})
		refusal, refused := errors.AsType[*sharedsched.Refusal](err)
		switch _, fails := errors.AsType[*catalog.ModelError](err); {
		case err == nil:
			return answers, false
		// so many copies never fit
		case fails, refused && refusal.Reason == sharedsched.RefusedQueueFull && refusal.RetryAfter < 0:
			failed++
		case refused, errors.Is(err, sharedsched.ErrExpired):
		default:
			other := k.replica.Another()
			if other == nil {
				return nil, true
			}
			k.replica = other
		}
		if pause(ctx, between) != nil {
			return nil, true
		}
	}
	return nil, false
}

// again runs the row once more. With alone it runs by itself, as it came. Otherwise it runs in a batch of copies of
// itself, of the same size as the batch that answered it; if memory does not suffice for so many copies, the rest is
// filled up as in any batch. The result has the wanted outputs of each copy.
func (a *Auditor) again(ctx context.Context, k *row, alone bool, task sharedsched.Task) ([][]tensor.Tensor, error) {
	rows := 1
	p := *k.replica.Plan()
	p.Copied = true // the caller's answer was not
	if alone {
		p.Signature, p.Trims = k.bare, nil
	} else {
		p.Allowed = []int{k.Size}
		room := 2 * k.bytes // the inputs and the outputs, and the same again one by one
		for rows = k.Size; rows > 1 && !a.cfg.Memory.Reserve(room*int64(rows)); rows /= 2 {
		}
		if rows > 1 {
			defer a.cfg.Memory.Release(room * int64(rows))
		}
	}
	j := &execution.Job{Rows: rows, Wanted: k.Wanted, Plan: &p, Task: task}
	for i, in := range k.inputs {
		j.Inputs = append(j.Inputs, in.Repeated(p.Signature.Inputs[i].BatchDim, rows))
	}
	j.Task.Alone, j.Task.Unmeasured = true, p.Padded(rows) != rows
	outcome, err := k.replica.Run(ctx, j)
	a.spend(cmp.Or(outcome.DeviceTime, outcome.Compute))
	failed, is := errors.AsType[*catalog.ModelError](err)
	if is && failed.Crashed && (alone || failed.Exceeded == 0) { // so many copies may take more memory than any batch
		k.crashed = true
		a.End()() // other rows could do so, too
		a.remark(fmt.Sprintf("batches are not audited any more, because a row of one crashed the model when it was run "+
			"again: %v", failed.Err))
	}
	if err != nil {
		return nil, err
	}
	outputs, err := j.Join()
	if err != nil {
		return nil, err
	}
	answers := make([][]tensor.Tensor, rows)
	for at := range answers {
		answers[at] = slices.Clone(outputs)
		for i := range outputs {
			if dim := p.Signature.Outputs[j.Output(i)].BatchDim; rows > 1 && outputs[i].Shape.HasRows(dim, rows) {
				answers[at][i] = outputs[i].Row(dim, at)
			} // else the comparison decides
		}
	}
	return answers, nil
}

// pause waits. It returns early, with an error, when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
