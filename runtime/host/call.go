package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// job is the payload of one task: a request's tensors on their way through the scheduler.
type job struct {
	replica *replica
	inputs  []tensor.Tensor
	rows    int
	wanted  []int // nil: all
	plan    *plan // of what is to run by itself; nil: that of the replica

	task sharedsched.Task

	mu     sync.Mutex // several executions may answer one job at a time
	pieces []piece    // guarded by mu until the task has ended
}

// piece is the answer to some rows of a job: the wanted outputs, in fresh memory.
type piece struct {
	first, rows int
	size        int // of the execution, with padding
	outputs     []tensor.Tensor
}

// Predict runs the call and fills in Results and Outcome, on the replica that is expected to answer first. It returns only when
// nothing reads call.Inputs any more. The error is a *catalog.ModelError, catalog.ErrNotReady or catalog.ErrDeviceLost, wrapped, what
// the scheduler ends a task with, or the cause of ctx. ErrNotReady comes before anything was answered: the caller may choose another
// version from a newer snapshot.
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
	j := &job{replica: r, inputs: call.Inputs, rows: max(1, call.Rows), wanted: call.Wanted, task: taskOf(call, arrival)}
	if call.Rows == 0 {
		j.plan = r.unjoined() // there is no row to pad or to fill up with
	}
	if call.Outcome, err = h.submit(ctx, j); err != nil {
		if undecided, is := errors.AsType[*undecidedError](err); is {
			return h.predictUndecided(ctx, r, call, arrival, undecided)
		}
		return err
	}
	if call.Results, err = j.join(); err != nil {
		if r.plan.Load().batched {
			if failed, is := errors.AsType[*catalog.ModelError](err); is {
				err = failed.Err
			}
			h.demote(r, err.Error())
		}
		return h.predictAgain(ctx, r, call, arrival, true)
	}
	if v := r.plan.Load().values; v != nil {
		v.earn(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute))
	}
	h.observe(j, call)
	return nil
}

// predictUndecided has a replica answer a call that failed beside others.
func (h *Host) predictUndecided(ctx context.Context, r *replica, call *catalog.Call, arrival time.Time, undecided *undecidedError) error {
	err := h.predictAgain(ctx, r, call, arrival, isRowless(undecided))
	if twice, is := errors.AsType[*undecidedError](err); is {
		err = twice.ModelError // it has so many rows that it was split again
	}
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		failed.Mates = int(undecided.answered.Load())
	} else if err == nil {
		undecided.answered.Add(1)
	}
	return err
}

// predictAgain has a replica answer a call by itself: whole, as it came, where its rows could not be told apart; else in an execution that
// could be a batch's, or, where it has more rows than that, split as before.
func (h *Host) predictAgain(ctx context.Context, r *replica, call *catalog.Call, arrival time.Time, asItCame bool) error {
	j := &job{replica: r, inputs: call.Inputs, rows: call.Rows, wanted: call.Wanted, task: taskOf(call, arrival)}
	if asItCame {
		j.plan = r.unjoined()
	}
	j.task.Alone = asItCame || call.Rows <= r.plan.Load().most
	before := call.Outcome
	outcome, err := h.submit(ctx, j)
	outcome.Queue, outcome.DeviceTime, outcome.Executions = before.Queue+before.Compute+outcome.Queue, before.DeviceTime+outcome.DeviceTime, before.Executions+outcome.Executions
	if call.Outcome = outcome; err != nil {
		return err
	}
	call.Results, err = j.join()
	return err
}

// submit completes the job's task from its inputs and waits for its end.
func (h *Host) submit(ctx context.Context, j *job) (sharedsched.Outcome, error) {
	t, r := &j.task, j.replica
	t.Rows, t.Payload = j.rows, j
	typical := j.plan == nil
	if typical {
		p := r.plan.Load()
		t.Key, t.ShapeKey = p.keys(j.inputs)
		if p.values != nil && !t.Alone && !h.proveFirst(r, p, j) {
			t.Alone, j.plan = true, r.unjoined()
		}
	}
	if j.plan != nil {
		// They never share an execution, and their rows are not those that a batch waits for.
		_, t.ShapeKey = j.plan.keys(j.inputs)
		t.Key = aloneKey + t.ShapeKey
	}
	t.Bytes = int64(len(t.Key))
	for i := range j.inputs {
		t.Bytes += int64(len(j.inputs[i].Data))
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

// aloneKey begins the name of the queues, one per shape, of what is to run by itself. A request's key may be like it, which does no harm.
const aloneKey = "alone"

// answer records the outputs for some of the job's rows.
func (j *job) answer(p piece) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pieces = append(j.pieces, p)
}

// complete reports whether all rows were answered at once.
func (j *job) complete() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.pieces, func(p piece) bool { return p.rows == j.rows })
}

// sizeOf returns the size of the execution that answered a row. The task must have ended well.
func (j *job) sizeOf(row int) (size int) {
	for _, p := range j.pieces {
		if p.rows == j.rows {
			return p.size
		}
		if p.first <= row && row < p.first+p.rows {
			size = p.size
		}
	}
	return size
}

// join returns the wanted outputs of all rows. The task must have ended well, so that the pieces cover all rows once.
func (j *job) join() ([]tensor.Tensor, error) {
	for _, p := range j.pieces {
		if p.rows == j.rows {
			return p.outputs, nil // there may be parts besides that could not be answered for as such
		}
	}
	slices.SortFunc(j.pieces, func(a, b piece) int { return cmp.Compare(a.first, b.first) })
	specs := j.replica.plan.Load().signature.Outputs
	results := make([]tensor.Tensor, len(j.pieces[0].outputs))
	for i := range results {
		spec := &specs[j.output(i)]
		t, err := j.joinOutput(i, spec)
		if err != nil {
			err = fmt.Errorf("the request of %d rows was split over %d executions and output %q cannot be joined: %w", j.rows, len(j.pieces), spec.Name, err)
			return nil, &catalog.ModelError{Model: j.replica.model, Version: j.replica.number, Err: err}
		}
		results[i] = t
	}
	return results, nil
}

// joinOutput joins the pieces of wanted output i.
func (j *job) joinOutput(i int, spec *tensor.Spec) (tensor.Tensor, error) {
	first := j.pieces[0].outputs[i]
	dim := spec.BatchDim
	ranges := make([]tensor.RowRange, len(j.pieces))
	for k, p := range j.pieces {
		t := p.outputs[i]
		switch {
		case dim == tensor.NoBatch && (!slices.Equal(t.Shape, first.Shape) || !bytes.Equal(t.Data, first.Data)):
			return tensor.Tensor{}, fmt.Errorf("it has no batch dimension and rows %d to %d give another value than the first", p.first, p.first+p.rows-1)
		case dim != tensor.NoBatch && !sameButFor(dim, t.Shape, first.Shape):
			return tensor.Tensor{}, fmt.Errorf("rows %d to %d give the shape %v, the first %d rows %v",
				p.first, p.first+p.rows-1, t.Shape, j.pieces[0].rows, first.Shape)
		}
		ranges[k] = tensor.RowRange{Tensor: t, Rows: p.rows}
	}
	if dim == tensor.NoBatch {
		return first, nil
	}
	joined := tensor.Tensor{DType: first.DType, Shape: first.Shape.With(dim, int64(j.rows))}
	joined.Data = make([]byte, tensor.JoinedSize(dim, ranges))
	tensor.JoinRows(joined.Data, dim, ranges)
	return joined, nil
}

// output returns the place in the signature of wanted output i.
func (j *job) output(i int) int {
	if j.wanted == nil {
		return i
	}
	return j.wanted[i]
}

// sameButFor reports whether two shapes are equal in every dimension but dim.
func sameButFor(dim int, a, b tensor.Shape) bool {
	return len(a) == len(b) && slices.Equal(a[:dim], b[:dim]) && slices.Equal(a[dim+1:], b[dim+1:])
}
