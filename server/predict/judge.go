package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
)

// judge reports to the breaker how a version did. Slow is an answer for which the model alone took longer than the
// version's target. Whether the answer was late, after the target of its request, does not matter here: waiting is not
// the version's doing.
func (p *Pipeline) judge(f *flight, err error) {
	v, outcome := f.call.Version, breaker.OK
	if err == nil && v.TargetLatency > 0 && p.computed(&f.call) > v.TargetLatency {
		outcome = breaker.Slow // the model alone takes longer than is wanted, wherever the request waited
	}
	if err != nil {
		outcome = breaker.Ignored // overload, a caller that went away, or an input that only fails itself
		if isFault(err) && !f.excused {
			outcome = breaker.Fault
		}
	}
	by := uint64(0) // an answer of another version tells more than who asked
	if outcome != breaker.OK && !f.proven {
		by = p.unit(f.req)
	}
	p.breaker.Done(v.Model, v.Number, outcome, by)
}

// unit returns a number of the request's episode, or else of its caller; 0: it has neither. No single unit opens a
// circuit, so that one robot with bad inputs does not take a version from all others.
func (p *Pipeline) unit(req *Request) uint64 {
	who := [2]string{req.caller(), req.Episode}
	if who == [2]string{} {
		return 0
	}
	return maphash.Comparable(p.seed, who) | 1
}

// InputError says that a model fails on an input in two versions that take the same: it is the input that is wrong.
type InputError struct {
	Err   error // that of the version that was asked
	Other int64
}

func (e *InputError) Error() string {
	return fmt.Sprintf("%v; version %d of the model takes the same inputs and failed on it too, so that the input is "+
		"what is wrong: send another one", e.Err, e.Other)
}

// Unwrap gives the version's error but not that it is its fault.
func (e *InputError) Unwrap() error { return errors.Unwrap(e.Err) }

// mostElsewhere is how long a request without a limit is tried elsewhere.
const mostElsewhere = 10 * time.Second

// tryElsewhere runs a request that its version failed on once more, within its limit, on another version that takes the
// same inputs: what fails there too is the caller's mistake, an *InputError. Other errors stay as they are. What would
// end a process a second time is not tried. The second answer is never the caller's answer: it only tells whose fault
// the first error is.
func (p *Pipeline) tryElsewhere(ctx context.Context, f *flight, err error) error {
	if !isAnswer(err) {
		return err
	}
	v := f.call.Version
	other := p.Table().Alternative(v, p.breaker)
	if other == nil {
		return err
	}
	again := f.call
	again.Version, again.Memory, again.Traced = other, nil, false
	if again.Limit.IsZero() {
		again.Limit = f.routed.Add(cmp.Or(v.MaxLatency, mostElsewhere))
	}
	trial := breaker.Untried
	f.excused = p.breaker.Excuse(v.Model, v.Number, other.Number, func() breaker.Trial {
		// A caller who has no time for a second run learns of the first.
		if time.Until(again.Limit) < 2*f.call.Outcome.Compute {
			return trial
		}
		if second := p.models.Predict(ctx, &again); second == nil {
			trial = breaker.AnsweredElsewhere
		} else if isAnswer(second) {
			trial = breaker.FailedToo
		}
		return trial
	})
	f.proven = trial == breaker.AnsweredElsewhere
	switch gone := context.Cause(ctx); {
	case trial == breaker.FailedToo && f.excused:
		return &InputError{err, other.Number}
	case trial == breaker.Untried && gone != nil:
		return gone
	}
	return err
}

// isAnswer reports whether an error is a model's answer to an input, and neither the end of its process nor a lack of
// memory or of a device.
func isAnswer(err error) bool {
	e, is := errors.AsType[*catalog.ModelError](err)
	return is && !e.Crashed && !e.OutOfMemory() && !errors.Is(err, catalog.ErrDeviceLost)
}

// computed returns how long the model took for an answer that has just come, without the time that this process or its
// workers did not have meanwhile.
func (p *Pipeline) computed(call *catalog.Call) time.Duration {
	took := call.Outcome.Compute
	return max(0, took-p.config.Clock.Lost(time.Now().Add(-took)))
}

// isFault reports whether it is surely the model that failed: it gave an error, and answered no other request of the
// same batch. Where it did, the input is to blame. It has nothing to do with Request.Fault, which is an error in the
// message.
func isFault(err error) bool {
	e, ok := errors.AsType[*catalog.ModelError](err)
	return ok && e.Mates == 0
}

// logBreaker logs that a version is not fit any more, or is again.
func logBreaker(log *slog.Logger, b *breaker.State) {
	level := slog.LevelWarn
	if b.State == breaker.Closed {
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level, "circuit breaker changed", "event", "breaker_changed",
		"model", b.Model, "version", b.Version, "state", b.State, "cause", b.Reason)
}
