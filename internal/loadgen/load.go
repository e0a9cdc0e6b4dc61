package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxInFlight bounds the requests of one stream that are not answered yet, and with them the goroutines. At the bound
// an open loop sends late; its latencies count that, and the report says so.
const maxInFlight = 16384

// load is one stream with what a run needs of it. Its schedule and tally are made anew for each run; the rest stays.
type load struct {
	Stream
	version  string // that answers, by number
	payloads []payload
	schedule []time.Duration // of an open loop, since the beginning of the warm-up
	inFlight int             // bound of an open loop
	tally    *tally
	givenUp  sync.WaitGroup // calls that nobody waits for, and that stay open
}

// clock has the moments of a run: the warm-up begins, the counting begins, and nothing is due any more.
type clock struct{ start, begin, end time.Time } // the warm-up begins, the counting begins, nothing is due any more

// predictor sends a request and fills in the reply, until ctx ends.
type predictor func(ctx context.Context, q *payload, into *reply) error

// callers runs the closed loop of the stream, and returns when all callers have ended. A caller that is refused asks
// again at once, as a client without a pause does. So a closed loop shows what a server can do, and not what it does to
// callers who come on their own. All callers share one sequence of requests.
func (l *load) callers(ctx context.Context, at clock, predict predictor, done func(failed bool)) {
	var wg sync.WaitGroup
	var next atomic.Uint64
	for range l.Callers {
		// The outcome and its reply are reused by all requests of the caller: a request then allocates next to nothing
		// here.
		wg.Go(func() {
			o := outcome{reply: &reply{}}
			for now := time.Now(); now.Before(at.end) && ctx.Err() == nil; now = time.Now() {
				q := &l.payloads[(next.Add(1)-1)%uint64(len(l.payloads))]
				done(l.send(ctx, at, now, q, &o, predict) != nil)
			}
		})
	}
	wg.Wait()
}

// open runs the open loop of the stream, and returns when all its requests have ended. It never waits for an answer,
// except at the bound of requests in flight. A goroutine that has its answer takes the next request, so that few
// goroutines are started during the run.
func (l *load) open(ctx context.Context, at clock, wait sleeper, predict predictor,
	done func(failed bool),
) {
	type due struct {
		at time.Time
		q  *payload
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	idle := make(chan due)
	defer close(idle)
	started := 0
	// Requests are sent in the order of the schedule, even if they are late.
	for i, after := range l.schedule {
		next := due{at.start.Add(after), &l.payloads[i%len(l.payloads)]}
		if !wait.until(ctx, next.at) {
			return
		}
		// An idle goroutine takes the request; nobody waits for one.
		select {
		case idle <- next:
			continue
		default:
		}
		// At the bound the loop waits for a goroutine, and sends late. The request keeps the time at which it was due.
		if started == l.inFlight {
			select {
			case idle <- next:
				continue
			case <-ctx.Done():
				return
			}
		}
		started++
		wg.Go(func() {
			o := outcome{reply: &reply{}}
			for more := true; more; next, more = <-idle {
				done(l.send(ctx, at, next.at, next.q, &o, predict) != nil)
			}
		})
	}
}

// sleeper waits for moments. One goroutine uses it.
type sleeper interface {
	// until reports whether the moment came before ctx ended.
	until(ctx context.Context, moment time.Time) bool
	// close gives back what it holds.
	close()
}

// timerSleeper waits by the runtime's timers, which may be a millisecond late.
type timerSleeper struct{}

func (timerSleeper) until(ctx context.Context, moment time.Time) bool {
	left := time.Until(moment)
	// A late loop must not wait for a timer, or it would be later still.
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (timerSleeper) close() {}
