package loadgen

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
)

// TestRetries has a server that refuses each request twice.
func TestRetries(t *testing.T) {
	for _, tt := range []struct {
		retries            int
		answered, attempts int64
	}{{1, 0, 400}, {3, 200, 600}} {
		synctest.Test(t, func(t *testing.T) {
			start, tried := time.Now(), map[time.Duration]int{}
			predict := func(ctx context.Context, _ *payload, _ *reply) error {
				if by, _ := ctx.Deadline(); time.Until(by) != 50*time.Millisecond {
					t.Errorf("an attempt has %v, want 50 ms", time.Until(by))
				}
				second := time.Since(start).Truncate(time.Second)
				time.Sleep(time.Millisecond)
				if tried[second]++; tried[second] < 3 {
					return status.Error(codes.ResourceExhausted, "full")
				}
				return nil
			}
			s := stream(func(s *Stream) {
				s.Rate, s.Arrivals, s.Retries, s.Deadline = 1, constant, tt.retries, config.Duration(50*time.Millisecond)
			})
			got := play(t.Context(), t, 0, 200*time.Second, predict, 1, s).Streams[0]
			if got.Codes["OK"] != tt.answered || got.Sent != 200 || got.Attempts != tt.attempts ||
				got.InTime != float64(tt.answered)/200 {
				t.Errorf("%d retries: %v, %d sent, %d attempts, in time %g; want %+v", tt.retries, got.Codes, got.Sent,
					got.Attempts, got.InTime, tt)
			}
			if r := got.RefusedMs; r == nil || !near(r.P99, 1, 0.01) {
				t.Errorf("%d retries: refused within %+v ms, want 1", tt.retries, r)
			}
		})
	}
}

// TestNoRetry: what would fail again is not sent again.
func TestNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := func(context.Context, *payload, *reply) error {
			time.Sleep(time.Millisecond)
			return status.Error(codes.InvalidArgument, "wrong")
		}
		s := stream(func(s *Stream) { s.Rate, s.Arrivals, s.Retries = 10, constant, 3 })
		got := play(t.Context(), t, 0, time.Second, wrong, 1, s).Streams[0]
		if got.Attempts != 10 || got.Codes["InvalidArgument"] != 10 || got.RefusedMs != nil {
			t.Errorf("%d attempts, %v, refused %+v; want 10 that failed at once", got.Attempts, got.Codes, got.RefusedMs)
		}
	})
}

// TestPatience has a server that answers each second call only after a minute: the callers give these up, and leave
// them open.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, open, most atomic.Int64
		predict := func(ctx context.Context, _ *payload, _ *reply) error {
			if _, has := ctx.Deadline(); has {
				t.Error("the server is told a deadline")
			}
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			if calls.Add(1)%2 == 0 {
				time.Sleep(time.Millisecond)
				return nil
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		s := stream(func(s *Stream) {
			s.Rate, s.Arrivals, s.Deadline, s.Patience, s.Retries = 1, constant, 0, config.Duration(time.Second/4), 1
		})
		got := play(t.Context(), t, 0, 20*time.Second, predict, 1, s).Streams[0]
		if got.Codes["OK"] != 20 || got.Attempts != 40 || got.InTime != 1 || most.Load() != 21 || open.Load() != 0 {
			t.Errorf("%v, %d attempts, in time %g, %d open at once, %d at the end; want 20 OK, 40, 1, 21, 0", got.Codes,
				got.Attempts, got.InTime, most.Load(), open.Load())
		}
		goodput := 0.0
		for _, p := range got.Series {
			goodput += p.GoodputPS / float64(len(got.Series))
		}
		if !near(goodput, 1, 0.01) {
			t.Errorf("the series has %g answers in time a second on average, want 1", goodput)
		}
	})
}
