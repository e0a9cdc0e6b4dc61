package weftclient_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

func full(retry time.Duration) error {
	return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, MaxQueue: 3, RetryAfter: retry}
}

// attempts has a server fail a call with each of the errors in turn, and returns when the attempts came, after the
// first, and how the call ended.
func attempts(t *testing.T, q *weftclient.Request, within time.Duration, option weftclient.Option, fails ...error,
) (at []time.Duration, ended error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var first time.Time
		client := dial(t, func(context.Context, *catalog.Call) error {
			if len(at) == 0 {
				first = time.Now()
			}
			at = append(at, time.Since(first))
			if len(at) > len(fails) {
				return nil
			}
			return fails[len(at)-1]
		}, option)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, ended = client.Predict(ctx, q)
	})
	return at, ended
}

func TestRetries(t *testing.T) {
	const wait = 700 * time.Millisecond
	large := &weftclient.Request{
		Model:  weftclient.Model("uint8/1"),
		Inputs: weftclient.Tensors{"x": weftclient.FromSlice(make([]uint8, 1<<20))},
	}
	for _, tt := range []struct {
		name   string
		q      *weftclient.Request
		within time.Duration
		option weftclient.Option
		fails  []error
		at     []time.Duration
		code   codes.Code
	}{
		{
			"when the server says so", observation(), time.Minute, weftclient.WithAttempts(4),
			[]error{full(wait), full(wait / 7)},
			[]time.Duration{0, wait, wait + wait/7},
			codes.OK,
		},
		{
			"a large request, too", large, time.Minute, weftclient.WithAttempts(4),
			[]error{full(wait)},
			[]time.Duration{0, wait},
			codes.OK,
		},
		{
			"not more often than was said", observation(), time.Minute, weftclient.WithAttempts(2),
			[]error{full(wait), full(wait)},
			[]time.Duration{0, wait},
			codes.ResourceExhausted,
		},
		{
			"more often than gRPC does by itself", observation(), time.Minute, weftclient.WithAttempts(7),
			[]error{full(wait), full(wait), full(wait), full(wait), full(wait), full(wait)},
			[]time.Duration{0, wait, 2 * wait, 3 * wait, 4 * wait, 5 * wait, 6 * wait},
			codes.OK,
		},
		{
			"never", observation(), time.Minute, weftclient.WithAttempts(1),
			[]error{full(wait)},
			[]time.Duration{0},
			codes.ResourceExhausted,
		},
		{
			"not beyond the deadline", observation(), wait / 2, weftclient.WithAttempts(4),
			[]error{full(wait)},
			[]time.Duration{0},
			codes.DeadlineExceeded,
		},
		{
			"not where the server says that it does not help", observation(), time.Minute, weftclient.WithAttempts(4),
			[]error{&sharedsched.Refusal{Reason: sharedsched.RefusedDeadline, RetryAfter: -1}},
			[]time.Duration{0},
			codes.ResourceExhausted,
		},
		{
			"not a fault", observation(), time.Minute, weftclient.WithAttempts(4),
			[]error{errors.New("boom")},
			[]time.Duration{0},
			codes.Internal,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := attempts(t, tt.q, tt.within, tt.option, tt.fails...)
			if diff := cmp.Diff(tt.at, at); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
			if status.Code(err) != tt.code || tt.code != codes.OK && strings.Contains(err.Error(), "attempts") {
				t.Errorf("%v; want %v", err, tt.code)
			}
		})
	}
}

func TestError(t *testing.T) {
	_, err := attempts(t, observation(), time.Minute, weftclient.WithAttempts(1), full(30*time.Millisecond))
	e, is := errors.AsType[*weftclient.Error](err)
	if !is || e.Code != codes.ResourceExhausted || e.Reason != "QUEUE_FULL" || e.Metadata["max_queue"] != "3" {
		t.Fatalf("%#v", err)
	}
	if wait, helps := e.RetryAfter(); !helps || wait != 30*time.Millisecond {
		t.Errorf("again after %v, %v", wait, helps)
	}
	if st, is := status.FromError(err); !is || len(st.Details()) != 2 || st.Message() != e.Message {
		t.Errorf("%v, %v", st, is)
	}
	q := observation()
	q.Model = weftclient.Model("polcy")
	_, err = dial(t, nil).Predict(t.Context(), q)
	e, is = errors.AsType[*weftclient.Error](err)
	if !is || e.Code != codes.NotFound || e.Reason != "" {
		t.Fatalf("%#v", err)
	}
	if _, helps := e.RetryAfter(); helps {
		t.Error("trying again is said to help")
	}
}
