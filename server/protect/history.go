package protect

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

const (
	// ratio is how many requests of a kind may come for one that is answered. It must be more than 1, so that an
	// increase of capacity is noticed, and more than a server whose model has no slack answers one of at its best.
	ratio = 1.5
	// few is how many more are let in anyway: that many refusals cost nothing worth saving.
	few = 16
	// memory is the time in which the counts lose two thirds: some batches of a large model, and no longer, for with
	// them ends what callers suffer for the past.
	memory = 300 * time.Millisecond
	// roughly is by how much the time of a call may be longer than that of one that was refused: it was measured later.
	roughly = 2
)

// Kind is what decides, besides its deadline, whether there is capacity for a request.
type Kind struct {
	Model    string
	Version  int64
	Priority sharedsched.Priority
	// Caller is the name of the identity that called; "": it is not known. One's flood must not have others refused.
	Caller string
	// Endless: it has no deadline.
	Endless bool
}

// history is what became of the latest requests of a kind. It is the adaptive throttling of clients in Beyer et al.,
// Site Reliability Engineering (2016), chapter 21, done by the server: calls are refused with the probability
//
//	(requests - ratio × answered - few) / requests
//
// so that the calls let in are not many more than there is capacity for. The others would only have cost. It is the
// same for all connections, which so keep their parts of what is answered. A call that brings more time than the
// unanswered ones had is let in.
type history struct {
	mu                 sync.Mutex
	at                 time.Time
	requests, answered float64   // of about the last memory
	longest            float64   // time of the unanswered ones, in seconds; it shrinks like the counts
	cause              error     // of the latest that was not answered
	said               error     // what calls that are refused end with
	saidAt             time.Time // when that was written
}

// forgetLocked lets the counts shrink by exp(-time/memory). A step of less than a hundredth of memory is not worth it.
func (h *history) forgetLocked(now time.Time) {
	passed := now.Sub(h.at)
	if passed < memory/100 {
		return
	}
	left := math.Exp(-passed.Seconds() / memory.Seconds())
	h.requests, h.answered, h.longest, h.at = h.requests*left, h.answered*left, h.longest*left, now
}

// refuse decides about a call that wants its answer within so many seconds; it matters only where a processor is
// scarce. The error is what say makes of the cause, now and then, because that costs as much as all the rest; nil lets
// the call in.
func (h *history) refuse(now time.Time, within float64, scarce func() bool, say func(cause error) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked(now)
	excess := h.requests - ratio*h.answered - few
	if excess <= 0 || within > roughly*h.longest || rand.Float64()*h.requests >= excess || !scarce() {
		return nil
	}
	h.requests++
	if now.Sub(h.saidAt) > memory {
		h.said, h.saidAt = say(h.cause), now
	}
	return h.said
}

// ended notes that a request that was let in was answered, or not, by the cause, for lack of capacity.
func (h *history) ended(now time.Time, within float64, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked(now)
	h.requests++
	if cause == nil {
		h.answered++
		return
	}
	h.cause, h.longest = cause, max(h.longest, within)
}
