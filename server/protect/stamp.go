package protect

import (
	"context"
	"sync/atomic"
	"time"
)

// stamp is when the kernel received the newest bytes of a connection's latest read, in nanoseconds since 1970; 0:
// unknown.
//
// A deadline counts from when gRPC reads the header of its call. On a busy machine the process may get a processor
// milliseconds after the bytes came, the more so because executions are not interrupted, and by then their caller's
// time has run for as long. Bytes before the newest have waited longer, by at most the time since the read before. What
// the network and the caller's own machine took is not in it. The kernel begins to note times shortly after the first
// connection has asked for it.
type stamp struct{ came atomic.Int64 }

func (s *stamp) latest() int64 { return s.came.Load() }

const (
	// reportAfter: waits shorter than this are not reported to the call.
	reportAfter = 500 * time.Microsecond
	// longestWait is how long bytes wait at most: what is longer is a clock that was set.
	longestWait = 10 * time.Second
)

// late is the key of what Header adds to a context: by how much the deadline that gRPC set for a call is too late.
// Whether a request is answered late, after its target, is another matter (server/predict).
type late struct{}

// Header is to be called for each call when its header was read, which is when gRPC sets its deadline. It returns the
// call's context, by which Late knows by how much that is too late. Most calls waited for next to nothing, and keep
// their context.
func Header(ctx context.Context, now time.Time) context.Context {
	if w := Waited(ctx, now); w >= reportAfter {
		return context.WithValue(ctx, late{}, w)
	}
	return ctx
}

// Late returns by how much the deadline of a call is later than its caller means: how long its bytes had waited when
// its header was read; 0 where that is not known, or is next to nothing.
func Late(ctx context.Context) time.Duration {
	w, _ := ctx.Value(late{}).(time.Duration)
	return w
}

// Waited returns how long ago the bytes came that were read last from the connection of a call, 0 where that is not
// known.
func Waited(ctx context.Context, now time.Time) time.Duration {
	a, ok := accountOf(ctx)
	if !ok || a.arrivals == nil {
		return 0
	}
	came := a.arrivals.latest()
	if came == 0 {
		return 0
	}
	w := time.Duration(now.UnixNano() - came)
	if w < 0 || w > longestWait {
		return 0
	}
	return w
}
