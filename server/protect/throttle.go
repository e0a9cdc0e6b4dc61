package protect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/tap"
)

// ThrottledError says that a request was refused unread.
type ThrottledError struct {
	Kind        // of the connection's latest requests
	Cause error // why the latest of that kind was not answered
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("most of the latest requests like this connection's could not be answered, and this one was "+
		"refused unread (of the latest: %v)", e.Cause)
}

// Throttle refuses calls of one server. Its fields are fixed for its life.
type Throttle struct {
	// Scarce reports whether executions wait for a processor. Only while they do is anything refused here: otherwise it
	// costs nobody anything to read what is refused later.
	Scarce func() bool
	// Status returns the error with which calls end.
	Status func(*ThrottledError) error
	// Refused is called for each call that was refused.
	Refused func(Kind)

	methods map[string]func(error) error // whose calls are refused, and how

	mu    sync.Mutex
	kinds map[Kind]*history // guarded by mu
}

const (
	// maxKinds bounds the memory of kinds. There are as many as versions times priorities times identities.
	maxKinds = 1 << 12
	// endless is the time, in seconds, in which the answer to a call without a deadline is wanted.
	endless = 1e6
	// leak is the longest time, in seconds, of a call that is refused: gRPC keeps the context of one until its deadline,
	// so that refusing calls with much time would take memory instead of saving a processor's time.
	leak = 1
)

// Refuses has calls of a method, of one request each, be refused. codes returns the error of a call as the protocol of
// the method has it; nil: as it is. A method must be named before any call of it comes.
func (t *Throttle) Refuses(method string, codes func(error) error) {
	if _, known := t.methods[method]; known {
		return // on another listener, whose calls may come already
	}
	if t.methods == nil {
		t.methods = map[string]func(error) error{}
	}
	t.methods[method] = codes
}

// Tap is to be called for the header of each call, by a tap.ServerInHandle. It refuses a call only if its connection's
// latest requests were all of one kind, for which there lately was no capacity, and only with some probability: see
// history. The error is that of Status.
func (t *Throttle) Tap(ctx context.Context, now time.Time, call *tap.Info) (context.Context, error) {
	codes, refuses := t.methods[call.FullMethodName]
	a, ok := accountOf(ctx)
	if !ok || !refuses {
		return ctx, nil
	}
	left := timeLeft(ctx, now)
	k, of := a.kinds.only(now)
	if of == nil || k.Endless != (left == endless) || left > leak && !k.Endless {
		return ctx, nil
	}
	err := of.refuse(now, left, t.Scarce,
		func(cause error) error { return t.Status(&ThrottledError{Kind: k, Cause: cause}) })
	if err == nil {
		return ctx, nil
	}
	t.Refused(k)
	if codes != nil {
		err = codes(err)
	}
	return ctx, err
}

// Answered notes that the request of a call that began then was answered, or could not be for reasons of its own; or
// that it was not, by the cause, for lack of capacity. The kind's model and version must exist.
func (t *Throttle) Answered(ctx context.Context, began time.Time, k Kind, cause error) {
	a, ok := accountOf(ctx)
	if !ok {
		return
	}
	left := timeLeft(ctx, began)
	k.Endless = left == endless
	now := time.Now()
	a.kinds.brought(now, k, t.history).ended(now, left, cause)
}

// history returns that of a kind. At maxKinds all are forgotten: a history is worth less than a second anyway.
func (t *Throttle) history(k Kind) *history {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.kinds[k]
	if h == nil {
		if t.kinds == nil || len(t.kinds) >= maxKinds {
			t.kinds = map[Kind]*history{}
		}
		h = &history{}
		t.kinds[k] = h
	}
	return h
}

// timeLeft returns the time from now to the deadline in seconds.
func timeLeft(ctx context.Context, now time.Time) float64 {
	deadline, has := ctx.Deadline()
	if !has {
		return endless
	}
	return deadline.Sub(now).Seconds()
}

// kinds remembers what kind the latest requests of a connection were. Requests of another kind may be answered
// where these are not, and no header tells them apart: while kinds mix on a connection, nothing of it is refused.
type kinds struct {
	mu    sync.Mutex
	kind  Kind
	of    *history  // of the kind; nil: no request has ended
	mixed time.Time // when the kind changed last
}

// unlike is for how long a connection counts as one that brings requests of several kinds.
const unlike = time.Minute

// only returns the kind of the connection's requests, and the history of that; nil if it is not known.
func (c *kinds) only(now time.Time) (Kind, *history) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.mixed) < unlike {
		return Kind{}, nil
	}
	return c.kind, c.of
}

// brought notes that a request of a kind has ended, and returns the history of that.
func (c *kinds) brought(now time.Time, k Kind, history func(Kind) *history) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k != c.kind || c.of == nil {
		if c.of != nil {
			c.mixed = now
		}
		c.kind, c.of = k, history(k)
	}
	return c.of
}
