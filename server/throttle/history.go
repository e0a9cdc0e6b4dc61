package throttle

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

const (
	// ratio is how many requests a connection may bring for one that is answered. It must be more than 1, so that an
	// increase of capacity is noticed, and more than a server whose model has no slack answers one of at its best.
	ratio = 1.5
	// few is how many more are let in anyway: that many refusals cost nothing worth saving.
	few = 16
	// memory is the time in which the counts lose two thirds: some batches of a large model, and no longer, for with
	// them ends what a connection suffers for the past.
	memory = 300 * time.Millisecond
	// unlike is for how long a connection counts as one that brings requests of several kinds.
	unlike = 3 * memory
	// roughly is by how much the time of a call may be longer than that of one that was refused: it was measured later.
	roughly = 2
)

// Kind is what decides, besides its deadline, whether there is capacity for a request.
type Kind struct {
	Model    string
	Priority sharedsched.Priority
}

// history is what became of the latest requests of one connection. It is the adaptive throttling of clients in Beyer et
// al., Site Reliability Engineering (2016), chapter 21, done by the server: calls are refused with the probability
//
//	(requests - ratio × answered - few) / requests
//
// so that those let in are hardly more than there is capacity for. The others would only have cost. Requests of another
// kind may be in time where these are not, and no header tells them apart: while kinds mix, nothing is refused. Nor is
// a call that brings more time than the ones that were.
type history struct {
	mu                 sync.Mutex
	at                 time.Time
	requests, answered float64   // of about the last memory
	kind               Kind      // of the latest
	mixed              time.Time // when the kind changed last
	longest            float64   // time of those that were not answered, in seconds; it shrinks like the counts
	cause              error     // of the latest that was not answered
	said               error     // what calls that are refused end with
	saidAt             time.Time // when that was written
}

// forgetLocked lets the counts shrink.
func (h *history) forgetLocked(now time.Time) {
	passed := now.Sub(h.at)
	if passed < memory/100 {
		return
	}
	left := math.Exp(-passed.Seconds() / memory.Seconds())
	h.requests, h.answered, h.longest, h.at = h.requests*left, h.answered*left, h.longest*left, now
}

// refuse decides about a call that wants its answer within so many seconds. The error is what say makes of an *Error,
// now and then, because that costs as much as all the rest; nil lets the call in.
func (h *history) refuse(now time.Time, within float64, say func(*Error) error) (Kind, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked(now)
	excess := h.requests - ratio*h.answered - few
	if excess <= 0 || within > roughly*h.longest || now.Sub(h.mixed) < unlike || rand.Float64()*h.requests >= excess {
		return Kind{}, nil
	}
	h.requests++
	if now.Sub(h.saidAt) > memory {
		h.said, h.saidAt = say(&Error{Kind: h.kind, Cause: h.cause}), now
	}
	return h.kind, h.said
}

// ended notes that a request that was let in was answered in time, or not for want of capacity.
func (h *history) ended(now time.Time, k Kind, within float64, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked(now)
	if k != h.kind {
		if h.kind != (Kind{}) {
			h.mixed = now
		}
		h.kind, h.requests, h.answered, h.saidAt = k, 0, 0, time.Time{}
	}
	h.requests++
	if cause == nil {
		h.answered++
		return
	}
	h.cause, h.longest = cause, max(h.longest, within)
}
