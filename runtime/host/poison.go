package host

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/sharedsched"
)

// defaultIsolation is the time for finding the requests that made a batch fail, where the model has no budget of its own.
const defaultIsolation = 100 * time.Millisecond

// recoverFrom gives every part of a failed run its due: an answer if it can have one, else an error.
func (x *execution) recoverFrom(err error, parts []part) {
	switch {
	case x.lost != nil, engine.KindOf(err) == engine.Terminated:
		x.fail(err, parts, len(parts) > 1)
	case engine.KindOf(err) == engine.OutOfMemory:
		x.halve(err, parts)
	case isRowless(err):
		x.separate(err, parts)
	default:
		x.isolate(err, parts)
	}
}

// fail ends parts that get no answer. Together tells that they failed beside others, so that none of them is known to be the
// cause.
func (x *execution) fail(err error, parts []part, together bool) {
	failed := &catalog.ModelError{Model: x.v.model, Version: x.v.number, Err: err}
	switch {
	case x.lost != nil:
		err = fmt.Errorf("model %q version %d: %w: %w", x.v.model, x.v.number, catalog.ErrDeviceLost, x.lost)
	case together:
		if x.answered == nil {
			x.answered = new(atomic.Int32)
		}
		err = &undecidedError{failed, x.answered}
	default:
		err = failed
	}
	for _, p := range parts {
		p.span.Err = err
	}
}

// undecidedError ends requests that failed beside others, of which it was not found in time which is the cause. No caller hears of it: each
// of them is run once more, by itself.
type undecidedError struct {
	*catalog.ModelError
	answered *atomic.Int32 // requests of the same batch, those included that were run once more
}

func (e *undecidedError) Unwrap() error { return e.ModelError }

// countMates tells the requests that the model failed on how many of their batch it answered.
func (x *execution) countMates(spans []sharedsched.Span) {
	answered := 0
	for i := range spans {
		if spans[i].Err == nil {
			answered++
		}
	}
	if x.answered != nil {
		x.answered.Store(int32(answered))
	}
	for i := range spans {
		if failed, is := errors.AsType[*catalog.ModelError](spans[i].Err); is {
			failed.Mates = answered
		}
	}
}

// again runs some parts of a failed batch.
func (x *execution) again(parts []part) error {
	return x.run(parts, x.plan.padded(rowsOf(parts)))
}

// halve runs the two halves of a batch that memory did not suffice for, each once.
func (x *execution) halve(err error, parts []part) {
	rows := rowsOf(parts)
	if !x.plan.batched || rows == 1 {
		x.fail(err, parts, len(parts) > 1)
		return
	}
	left, right := cut(parts, (rows+1)/2)
	for _, half := range [][]part{left, right} {
		if x.lost == nil {
			err = x.again(half)
		}
		switch {
		case isRowless(err):
			x.separate(err, half)
		case err != nil:
			x.fail(err, half, len(half) > 1)
		}
	}
}

// cut divides parts after so many rows, through the middle of a part if need be.
func cut(parts []part, rows int) (left, right []part) {
	for _, p := range parts {
		n := min(rows, p.rows)
		rows -= n
		if n > 0 {
			left = append(left, part{span: p.span, job: p.job, first: p.first, rows: n})
		}
		if n < p.rows {
			right = append(right, part{span: p.span, job: p.job, first: p.first + n, rows: p.rows - n})
		}
	}
	return left, right
}

// group is some parts, and the error of a run that they were all in.
type group struct {
	parts []part
	err   error
}

// isolate finds the parts that made a batch fail by running ever smaller groups of it, and answers the others. It makes at most
// 2·⌈log₂ n⌉ runs for n parts, which suffice for one cause, and starts none once they took the time of one batch; what it could not tell
// apart by then is run again one by one, each when the scheduler has a place for it. It goes breadth first, because a large group that runs well answers many requests at once.
func (x *execution) isolate(err error, parts []part) {
	runs := 2 * bits.Len(uint(len(parts)-1))
	end := time.Now().Add(cmp.Or(x.plan.budget, defaultIsolation))
	spent := func() bool { return runs == 0 || x.lost != nil || !time.Now().Before(end) }

	// A group of one in the list has failed alone; a larger one holds a cause.
	for todo := []group{{parts, err}}; len(todo) > 0; todo = todo[1:] {
		g := todo[0]
		if len(g.parts) == 1 || spent() {
			x.fail(g.err, g.parts, len(g.parts) > 1)
			continue
		}
		middle := (len(g.parts) + 1) / 2
		left, right := group{g.parts[:middle], g.err}, group{g.parts[middle:], g.err}
		runs--
		if left.err = x.again(left.parts); isRowless(left.err) {
			x.separate(left.err, left.parts)
			left.err = nil // none of them is the cause
		}
		if left.err != nil {
			todo = append(todo, left)
		} else if len(right.parts) > 1 {
			// The cause must be on the right; that needs no run to know.
			todo = append(todo, right)
			continue
		}
		if spent() {
			x.fail(g.err, right.parts, true)
			continue
		}
		runs--
		if right.err = x.again(right.parts); isRowless(right.err) {
			x.separate(right.err, right.parts)
		} else if right.err != nil {
			todo = append(todo, right)
		}
	}
}

// isRowless reports whether a run went well but for outputs that cannot be divided among its requests.
func isRowless(err error) bool {
	_, is := errors.AsType[*rowsError](err)
	return is
}

// separate takes the version out of batching, and has the requests of such a run run one by one, as they came.
func (x *execution) separate(err error, parts []part) {
	x.host.demote(x.v, fmt.Sprintf("in a batch of requests %v", err))
	x.fail(err, parts, true)
}

func rowsOf(parts []part) int {
	rows := 0
	for i := range parts {
		rows += parts[i].rows
	}
	return rows
}
