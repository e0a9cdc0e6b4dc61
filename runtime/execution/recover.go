package execution

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/sharedsched"
)

// recoverFrom gives every part of a failed run an answer if it can have one, else an error. What it does depends on the
// kind of the error: a smaller run may help or show the cause, or nothing can be run any more.
func (x *execution) recoverFrom(err error, parts []part) {
	switch {
	case x.ended(err):
		x.fail(err, parts, len(parts) > 1)
	case engine.KindOf(err) == engine.OutOfMemory:
		x.halve(err, parts)
	case engine.KindOf(err) == engine.AnswerTooLarge:
		x.tooLarge(err, parts)
	case isRowless(err):
		x.separate(err, parts)
	default:
		x.isolate(err, parts)
	}
}

// ended reports whether smaller runs would show nothing, because there is no engine to make them: the device is lost,
// or the process has ended or is not open.
func (x *execution) ended(err error) bool {
	kind := engine.KindOf(err)
	return x.found.Lost != nil || kind == engine.Terminated || kind == engine.Crashed || kind == engine.NotOpen
}

// fail ends parts that get no answer. together says that they failed in one batch, so that none of them is known to be
// the cause; they are then tried once more by themselves (Attempt of package serving). Where the engine has a
// quarantine, only that proves the cause of a crash: something else may have ended the process of a part that ran
// alone.
func (x *execution) fail(err error, parts []part, together bool) {
	crashed := engine.KindOf(err) == engine.Crashed
	together = together || crashed && x.unit.quarantine != nil
	failed := &catalog.ModelError{
		Model: x.unit.Model, Version: x.unit.Version, Crashed: !together && crashed, Err: err,
	}
	_, again := errors.AsType[*engine.ReopeningError](err)
	switch {
	case x.found.Lost != nil:
		err = fmt.Errorf("model %q version %d: %w: %w", x.unit.Model, x.unit.Version, catalog.ErrDeviceLost,
			x.found.Lost)
	case engine.KindOf(err) == engine.NotOpen:
		err = fmt.Errorf("model %q version %d: %w: %w", x.unit.Model, x.unit.Version, catalog.ErrNotOpen, err)
	case together:
		// All undecided requests of the batch share one counter.
		if x.answered == nil {
			x.answered = new(atomic.Int32)
		}
		again = true
		err = &UndecidedError{failed, x.answered}
	default:
		err = failed
	}
	for _, p := range parts {
		p.span.Err, p.span.Again = err, again
	}
}

// UndecidedError ends requests that are not known to be the cause of their failure: the cause in the batch was not
// found in time, or only the quarantine can prove it. No caller sees it: each such request is run once more, by itself.
type UndecidedError struct {
	*catalog.ModelError
	answered *atomic.Int32 // requests of the same batch, those included that were run once more
}

// Unwrap returns the model's error.
func (e *UndecidedError) Unwrap() error { return e.ModelError }

// AsItCame reports whether each is to run as it came: the outputs could not be divided among the requests, or were too
// large with those of the padding.
func (e *UndecidedError) AsItCame() bool {
	return isRowless(e) || engine.KindOf(e) == engine.AnswerTooLarge
}

// Crashed reports whether the run ended its engine's process, or hung.
func (e *UndecidedError) Crashed() bool { return engine.KindOf(e.Err) == engine.Crashed }

// Answer notes that one of these requests was answered when it was run once more.
func (e *UndecidedError) Answer() { e.answered.Add(1) }

// Mates returns how many requests of the same batch were answered so far.
func (e *UndecidedError) Mates() int { return int(e.answered.Load()) }

// countMates sets, in the errors of requests that failed, how many requests of their batch were answered: callers can
// tell a faulty request from a faulty model by it.
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

// again runs some parts of a failed batch, padded to the next allowed size.
func (x *execution) again(parts []part) error {
	return x.run(parts, x.plan.Padded(rowsOf(parts)))
}

// halve runs the two halves of a batch that ran out of memory, each once. Halves that fail again are not divided
// further: the scheduler then forms smaller batches (Report.OutOfMemory).
func (x *execution) halve(err error, parts []part) {
	rows := rowsOf(parts)
	if !x.plan.Batched || rows == 1 {
		x.fail(err, parts, len(parts) > 1)
		return
	}
	left, right := cut(parts, (rows+1)/2)
	for _, half := range [][]part{left, right} {
		// A device that was lost with the first half runs nothing more.
		if x.found.Lost == nil {
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

// cut divides parts after so many rows, through the middle of a part if need be. It leaves parts as they are, because
// others refer to them.
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

// isRowless reports whether a run went well, but has outputs that cannot be divided among its requests.
func isRowless(err error) bool {
	_, is := errors.AsType[*rowsError](err)
	return is
}

// separate reports such a run as a finding about the unit, and has its requests run one by one, as they came.
func (x *execution) separate(err error, parts []part) {
	x.found.Rowless = cmp.Or(x.found.Rowless, err)
	x.fail(err, parts, true)
}

// rowsOf returns how many rows of requests the parts have, without padding.
func rowsOf(parts []part) int {
	rows := 0
	for i := range parts {
		rows += parts[i].rows
	}
	return rows
}
