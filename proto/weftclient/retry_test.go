package weftclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
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

// TestRetries has a server that ends each attempt as a line of a case says, and then answers.
func TestRetries(t *testing.T) {
	datadriven.RunTest(t, "testdata/retries.txt", func(t *testing.T, d *datadriven.TestData) string {
		q, attemptsMost, within := observation(), 4, time.Minute.String()
		d.MaybeScanArgs(t, "attempts", &attemptsMost)
		d.MaybeScanArgs(t, "within", &within)
		if d.HasArg("large") {
			q = &weftclient.Request{
				Model:  weftclient.Model("uint8/1"),
				Inputs: weftclient.Tensors{"x": weftclient.FromSlice(make([]uint8, 1<<20))},
			}
		}
		var fails []error
		for line := range strings.Lines(d.Input) {
			switch kind, wait, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
			case "full":
				fails = append(fails, full(duration(t, wait)))
			case "deadline":
				fails = append(fails, &sharedsched.Refusal{Reason: sharedsched.RefusedDeadline, RetryAfter: -1})
			default:
				fails = append(fails, errors.New(kind))
			}
		}
		at, err := attempts(t, q, duration(t, within), weftclient.WithAttempts(attemptsMost), fails...)
		if err != nil && strings.Contains(err.Error(), "attempts") {
			t.Errorf("%v; want the error of the server", err)
		}
		return fmt.Sprintf("at %v: %v\n", at, status.Code(err))
	})
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
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
