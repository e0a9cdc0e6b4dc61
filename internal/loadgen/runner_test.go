package loadgen

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
)

// play runs streams in virtual time; it must be called in a bubble.
func play(ctx context.Context, t *testing.T, warmup, duration time.Duration, predict predictor, inFlight int,
	streams ...Stream,
) *Report {
	t.Helper()
	b := benchOf(warmup, duration, predict, inFlight, streams...)
	r, err := b.measure(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func benchOf(warmup, duration time.Duration, predict predictor, inFlight int, streams ...Stream) *bench {
	b := &bench{
		o:          &Options{Warmup: config.Duration(warmup), Duration: config.Duration(duration)},
		predict:    predict,
		newSleeper: func() sleeper { return timerSleeper{} },
		errs:       io.Discard,
	}
	for _, s := range streams {
		b.loads = append(b.loads, &load{Stream: s, payloads: []payload{{rows: s.Rows}}, inFlight: inFlight})
	}
	return b
}

// queue is a server that takes a time for each request, one after another, and drops those whose deadline is over.
type queue struct {
	takes time.Duration
	busy  chan struct{}
}

func newQueue(takes time.Duration) *queue { return &queue{takes, make(chan struct{}, 1)} }

func (q *queue) predict(ctx context.Context, _ *payload, _ *reply) error {
	select {
	case q.busy <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	time.Sleep(q.takes)
	<-q.busy
	return nil
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

// TestNoCoordinatedOmission has a server that stalls for two of twenty seconds, and a client that may have one request
// in flight: what it could not send in time must show, as if it had.
func TestNoCoordinatedOmission(t *testing.T) {
	for _, inFlight := range []int{1, maxInFlight} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stalls := func(context.Context, *payload, *reply) error {
				if at := time.Since(start); at >= 10*time.Second && at < 12*time.Second {
					time.Sleep(12*time.Second - at)
				}
				time.Sleep(time.Millisecond)
				return nil
			}
			s := stream(func(s *Stream) { s.Rate, s.Arrivals, s.Deadline = 100, constant, 0 })
			got := play(t.Context(), t, 0, 20*time.Second, stalls, inFlight, s).Streams[0]
			// A tenth of the requests come in the stall, and wait for one second on average.
			if l := got.LatencyMs; got.Sent != 2000 || !near(l.P50, 1, 0.1) || !near(l.P95, 1000, 250) ||
				!near(l.P99, 1800, 100) || !near(l.Max, 2001, 5) {
				t.Errorf("%d in flight: %d sent, latencies %+v", inFlight, got.Sent, l)
			}
			if late := got.LagMs.P99 > 1000; late != (inFlight == 1) || late != (got.Doubtful != "") {
				t.Errorf("%d in flight: lag %+v, %q", inFlight, got.LagMs, got.Doubtful)
			}
			if got.Unsteady == "" {
				t.Errorf("%d in flight: the thirds are said to be alike: %+v", inFlight, got.Thirds)
			}
		})
	}
}

func TestOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newQueue(time.Millisecond)
		s := stream(func(s *Stream) { s.Rate, s.Rows = 500, 3 })
		got := play(t.Context(), t, 5*time.Second, 60*time.Second, server.predict, maxInFlight, s).Streams[0]
		// An M/D/1 queue at half its capacity: 1 ms of service, and half of that to wait on average.
		if !near(got.AnswersPS, 500, 15) || !near(got.RowsPS, 1500, 45) || !near(got.LatencyMs.Mean, 1.5, 0.1) {
			t.Errorf("%.1f answers, %.1f rows a second, %.3f ms on average; want 500, 1500, 1.5", got.AnswersPS, got.RowsPS,
				got.LatencyMs.Mean)
		}
		if got.InTime != 1 || got.Unsteady != "" || got.Doubtful != "" || len(got.Series) != partCount {
			t.Errorf("in time %g, %q, %q, %d parts", got.InTime, got.Unsteady, got.Doubtful, len(got.Series))
		}
	})
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newQueue(time.Millisecond)
		s := stream(func(s *Stream) { s.Callers = 8 })
		got := play(t.Context(), t, time.Second, 9*time.Second, server.predict, maxInFlight, s).Streams[0]
		if !near(got.AnswersPS, 1000, 2) || !near(got.LatencyMs.P50, 8, 0.1) || got.LagMs != nil {
			t.Errorf("%.1f answers a second, p50 %.3f ms, lag %v; want 1000, 8, none", got.AnswersPS, got.LatencyMs.P50,
				got.LagMs)
		}
	})
}

// TestOverload has twice the requests that can be answered, with a deadline.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newQueue(time.Millisecond)
		s := stream(func(s *Stream) {
			s.Rate, s.Arrivals, s.Deadline = 2000, constant, config.Duration(100*time.Millisecond)
		})
		got := play(t.Context(), t, 0, time.Second, server.predict, maxInFlight, s).Streams[0]
		// What waits for 100 ms is dropped. Once the queue is that long, the answers come a little later than that.
		if ok := got.Codes["OK"]; ok < 1050 || ok > 1110 || ok+got.Codes["DeadlineExceeded"] != 2000 ||
			got.LatencyMs.Max > 101.1 || !near(got.InTime, 0.1, 0.005) {
			t.Errorf("%v, in time %g, latencies %+v", got.Codes, got.InTime, got.LatencyMs)
		}
	})
}

// TestAnswersAfterTheEnd: a server that falls behind answers no faster than it can, though all is answered at last.
func TestAnswersAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newQueue(10 * time.Millisecond)
		s := stream(func(s *Stream) { s.Rate, s.Arrivals, s.Deadline = 120, constant, 0 })
		got := play(t.Context(), t, 5*time.Second, 10*time.Second, server.predict, maxInFlight, s).Streams[0]
		if !near(got.AnswersPS, 100, 0.2) || got.Codes["OK"] != 1200 || got.Unsteady == "" {
			t.Errorf("%g answers a second, %v, %q; want 100, all answered, unsteady", got.AnswersPS, got.Codes, got.Unsteady)
		}
	})
}

// TestLateAnswers has answers that come although the deadline is over.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		deaf := func(context.Context, *payload, *reply) error {
			if n++; n%4 == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		}
		s := stream(func(s *Stream) { s.Callers, s.Deadline = 1, config.Duration(10*time.Millisecond) })
		got := play(t.Context(), t, 0, time.Second, deaf, 1, s).Streams[0]
		if got.Codes["OK"] != 200 || got.InTime != 0.75 || !near(got.GoodputPS, 150, 1) || !near(got.AnswersPS, 200, 1) {
			t.Errorf("%v, in time %g, goodput %g of %g a second; want 200, 0.75, 150 of 200", got.Codes, got.InTime,
				got.GoodputPS, got.AnswersPS)
		}
	})
}

// TestCodes counts how requests end, but those of the warm-up.
func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ends := []codes.Code{codes.OK, codes.ResourceExhausted, codes.OK, codes.Internal}
		n := -1
		predict := func(_ context.Context, _ *payload, into *reply) error {
			if time.Since(start) < time.Second {
				return status.Error(codes.DataLoss, "still warming up")
			}
			n++
			into.execution.QueueUs, into.execution.ComputeUs, into.execution.BatchRows = 2000, 3000, 5
			return status.Error(ends[n%len(ends)], fmt.Sprint("request ", n))
		}
		s := stream(func(s *Stream) { s.Rate, s.Arrivals = 40, constant })
		got := play(t.Context(), t, time.Second, 10*time.Second, predict, 1, s).Streams[0]
		if got.Codes["OK"] != 200 || got.Codes["ResourceExhausted"] != 100 || got.Codes["Internal"] != 100 ||
			got.Sent != 400 || len(got.Codes) != 3 || got.InTime != 0.5 {
			t.Errorf("%d sent: %v, in time %g", got.Sent, got.Codes, got.InTime)
		}
		first := map[string]string{"ResourceExhausted": "request 1", "Internal": "request 3"}
		if diff := cmp.Diff(first, got.FirstErrors); diff != "" {
			t.Error(diff)
		}
		if q := got.Server; !near(q.QueueMs.P99, 2, 0.01) || !near(q.ComputeMs.P50, 3, 0.01) || q.BatchRows != 5 {
			t.Errorf("in the server: %+v", q)
		}
	})
}

// TestInterrupted ends a run after a third, with requests in flight.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		server := newQueue(300 * time.Millisecond)
		closed := stream(func(s *Stream) { s.Callers = 1 })
		open := stream(func(s *Stream) { s.Rate, s.Arrivals, s.Deadline = 1, constant, 0 })
		open.Name = "open"
		r := play(ctx, t, time.Second, 30*time.Second, server.predict, maxInFlight, closed, open)
		if took := r.DurationS; !r.Interrupted || !near(took, 10, 0.01) {
			t.Errorf("interrupted %v, counted %g s, want 10", r.Interrupted, took)
		}
		for _, s := range r.Streams {
			if s.Unanswered > 1 || s.Codes["OK"] == 0 || len(s.Codes) != 1 || s.Sent != s.Codes["OK"]+s.Unanswered {
				t.Errorf("%s: %d sent, %v, %d unanswered", s.Name, s.Sent, s.Codes, s.Unanswered)
			}
		}
	})
}

// TestNeverAnswered: a server that answers nothing ends the run after some time, without a deadline too.
func TestNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := func(ctx context.Context, _ *payload, _ *reply) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		s := stream(func(s *Stream) { s.Rate, s.Arrivals, s.Deadline = 10, constant, 0 })
		got := play(t.Context(), t, 0, time.Second, mute, 5, s).Streams[0]
		if got.Sent < 5 || got.Unanswered != got.Sent || got.Thirds != nil {
			t.Errorf("%d sent, %d unanswered, %v; want at least 5, all unanswered", got.Sent, got.Unanswered, got.Thirds)
		}
	})
}
