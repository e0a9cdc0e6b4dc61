package predict

import (
	"context"
	"fmt"
	"sync"

	"github.com/weftserve/weft/sharedsched"
)

// ServerFullError says that as many predictions are in the server as the configuration allows.
type ServerFullError struct{ Limit int }

func (e *ServerFullError) Error() string {
	return fmt.Sprintf("the server has its maximum of %d concurrent requests; try again, or raise "+
		"--max-concurrent-requests", e.Limit)
}

// Phase is how far the stop of the server has come. It only goes forward.
type Phase int

const (
	// Retiring begins the stop: who asks whether the server is ready hears that it is not, and everything is answered on.
	// A stream ends where an episode does.
	Retiring Phase = iota
	// Leaving ends streams and other calls that would last, and lets no stream in. Connections are asked to go.
	Leaving
	// Closed lets nothing in.
	Closed

	phases = iota
)

// Gate limits how many requests are in the server at once (max-concurrent-requests), counts them and the streams, and
// knows how far the stop has come. It has nothing to do with rollout.Gate, the promotion criteria of a rollout. A
// stream counts by itself, so that draining waits for it to end; its requests count as requests until their answers
// were sent.
type Gate struct {
	reached [phases]chan struct{} // each is closed when its phase begins
	empty   chan struct{}         // closed once the gate is closed and nothing is inside

	mu       sync.Mutex
	limit    int   // guarded by mu; requests; 0: no bound
	next     Phase // guarded by mu; the first that has not begun
	requests int   // guarded by mu
	streams  int   // guarded by mu
}

func newGate(limit int) *Gate {
	g := &Gate{limit: limit, empty: make(chan struct{})}
	for p := range g.reached {
		g.reached[p] = make(chan struct{})
	}
	return g
}

// SetLimit changes how many requests may be inside. Requests that are inside stay, also if they are more than that.
func (g *Gate) SetLimit(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
}

// enterRequest lets a request in, or says why not. Each success needs one leaveRequest.
func (g *Gate) enterRequest() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.next > Closed:
		return sharedsched.ErrDraining
	case g.limit > 0 && g.requests >= g.limit:
		return &ServerFullError{Limit: g.limit}
	}
	g.requests++
	return nil
}

// leaveRequest undoes enterRequest.
func (g *Gate) leaveRequest() { g.leave(&g.requests) }

// EnterStream lets a stream in unless the server is leaving. Each success needs one LeaveStream.
func (g *Gate) EnterStream() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next > Leaving {
		return sharedsched.ErrDraining
	}
	g.streams++
	return nil
}

// LeaveStream undoes EnterStream.
func (g *Gate) LeaveStream() { g.leave(&g.streams) }

func (g *Gate) leave(count *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*count--
	g.checkEmptyLocked()
}

// checkEmptyLocked requires mu. Nothing enters a closed gate, so the counts reach zero once, or are zero when it
// closes.
func (g *Gate) checkEmptyLocked() {
	if g.next > Closed && g.requests == 0 && g.streams == 0 {
		close(g.empty)
	}
}

// Reached is closed when the phase begins.
func (g *Gate) Reached(p Phase) <-chan struct{} { return g.reached[p] }

// Has reports whether the phase has begun.
func (g *Gate) Has(p Phase) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next > p
}

// Inside returns how many requests are in the server. Streams without a request do not count.
func (g *Gate) Inside() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// Advance begins a phase, and those before it.
func (g *Gate) Advance(to Phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.next <= to {
		close(g.reached[g.next])
		if g.next++; g.next > Closed {
			g.checkEmptyLocked()
		}
	}
}

// Drain waits until nothing is inside, or ctx ends. The Gate must be closed. The error is the cause of ctx.
func (g *Gate) Drain(ctx context.Context) error {
	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
