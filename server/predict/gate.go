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

// Gate limits how many requests are in the server at once (max-concurrent-requests), counts them and the streams, and
// closes when the server drains. It has nothing to do with rollout.Gate, the promotion criteria of a rollout. A stream
// counts by itself, so that draining waits for it to end; its requests count as requests until their answers were sent.
type Gate struct {
	closed chan struct{} // closed when draining begins
	empty  chan struct{} // closed once draining and nothing is inside

	mu       sync.Mutex
	limit    int  // guarded by mu; requests; 0: no bound
	draining bool // guarded by mu
	requests int  // guarded by mu
	streams  int  // guarded by mu
}

func newGate(limit int) *Gate {
	return &Gate{limit: limit, closed: make(chan struct{}), empty: make(chan struct{})}
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
	case g.draining:
		return sharedsched.ErrDraining
	case g.limit > 0 && g.requests >= g.limit:
		return &ServerFullError{Limit: g.limit}
	}
	g.requests++
	return nil
}

// leaveRequest undoes enterRequest.
func (g *Gate) leaveRequest() { g.leave(&g.requests) }

// EnterStream lets a stream in unless the server drains. Each success needs one LeaveStream.
func (g *Gate) EnterStream() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
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

// checkEmptyLocked requires mu. Nothing enters once draining, so the counts reach zero once, or are zero when draining
// begins.
func (g *Gate) checkEmptyLocked() {
	if g.draining && g.requests == 0 && g.streams == 0 {
		close(g.empty)
	}
}

// Closed is closed when draining begins.
func (g *Gate) Closed() <-chan struct{} { return g.closed }

// Inside returns how many requests are in the server. Streams without a request do not count.
func (g *Gate) Inside() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// Close lets nothing in any more.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.draining {
		g.draining = true
		close(g.closed)
		g.checkEmptyLocked()
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
