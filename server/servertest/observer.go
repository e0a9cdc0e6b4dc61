package servertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/server/predict"
)

// offer is a request as the observer hears of its arrival.
type offer struct {
	model  string
	stream bool
}

// RequestOffered implements predict.Observer.
func (h *House) RequestOffered(model string, stream bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offered[offer{model, stream}]++
}

// RequestDone implements predict.Observer. It copies the event, which is used again for another request.
func (h *House) RequestDone(_ context.Context, done *predict.Event) {
	e := *done
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offered[offer{e.Model, e.Stream}]--
	h.events = append(h.events, e)
}

// OutcomeReported implements weftapi.OutcomeObserver.
func (h *House) OutcomeReported(model string, version int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, fmt.Sprint(model, "/", version))
}

// OutcomeNotKept implements weftapi.OutcomeObserver.
func (h *House) OutcomeNotKept(model string, version int64, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, fmt.Sprint(model, "/", version, ": ", reason))
}

// Events returns how requests ended, in the order in which they did. A request is among them before its caller has the
// answer.
func (h *House) Events() []predict.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Outcomes returns the reports that were counted, as model/version, and those not kept with the reason.
func (h *House) Outcomes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.outcomes)
}

// RequestUnread implements server.Observer.
func (h *House) RequestUnread(string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread++
}

// Unread returns how many requests were refused by their headers.
func (h *House) Unread() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unread
}

// CallCame implements server.Observer.
func (h *House) CallCame(time.Duration) {}
