package loadgen

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// firstPause is the mean pause before the first retry. Each later one is twice as long.
const firstPause = 10 * time.Millisecond

// send sends a request that is due, again as often as the stream says, counts its outcome, and returns the last error.
// Latency counts from when the request was due, whatever the attempts; each attempt has its own deadline. A request
// that is cut off by the end of the run is neither answered nor failed.
func (l *load) send(ctx context.Context, at clock, due time.Time, q *payload, o *outcome, predict predictor) error {
	o.lag, o.due, o.rows, o.attempts = time.Since(due), due.Sub(at.begin), q.rows, 0
	for began := due; ; began = time.Now() {
		o.attempts++
		o.err = l.attempt(ctx, began, q, o, predict)
		o.took, o.last = time.Since(due), time.Since(began)
		// The end of the run cancelled it, so that its error says nothing of the server.
		if o.err != nil && ctx.Err() != nil {
			l.tally.abandon(o.due)
			return o.err
		}
		if status.Code(o.err) == codes.ResourceExhausted {
			l.tally.refuse(o)
		}
		if o.attempts > l.Retries || !mayRetry(o.err) || !l.pause(ctx, o.attempts) {
			l.tally.add(o)
			return o.err
		}
	}
}

// mayRetry reports whether a client would send again after an error: the server was overloaded, away or too slow. Other
// codes would come again.
func mayRetry(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// pause waits before a retry, for half to one and a half of its mean, so that requests refused together do not come
// back together. It reports whether the run goes on.
func (l *load) pause(ctx context.Context, attempts int) bool {
	mean := firstPause << (attempts - 1)
	return timerSleeper{}.until(ctx, time.Now().Add(time.Duration((0.5+rand.Float64())*float64(mean))))
}

// attempt sends a request once, and fills in the reply. With patience the call runs in a goroutine of its own, and is
// given up without being cancelled: the server still works on it, as for a client that left without a deadline. That
// call keeps its own reply, since it may still write to it.
func (l *load) attempt(ctx context.Context, began time.Time, q *payload, o *outcome, predict predictor) error {
	cancel := func() {}
	if l.Deadline > 0 {
		ctx, cancel = context.WithDeadline(ctx, began.Add(time.Duration(l.Deadline)))
	}
	// Without patience the call runs in this goroutine, which is the cheapest way.
	if l.Patience == 0 {
		defer cancel()
		return predict(ctx, q, o.reply)
	}
	answer, ended := &reply{}, make(chan error, 1)
	l.givenUp.Go(func() {
		defer cancel()
		ended <- predict(ctx, q, answer)
	})
	patience := time.NewTimer(time.Until(began.Add(time.Duration(l.Patience))))
	defer patience.Stop()
	select {
	case err := <-ended:
		o.reply = answer
		return err
	// The code is the one by which a client of a real deadline would have ended.
	case <-patience.C:
		return status.Errorf(codes.DeadlineExceeded, "given up after %v; the call stays open", l.Patience)
	}
}
