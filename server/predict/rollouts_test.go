package predict_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// listener is a Rollouts that remembers the requests and episodes that it hears of.
type listener struct {
	rollout.Manager
	mu    sync.Mutex
	heard []string // guarded by mu
}

func (l *listener) Observe(model string, version int64, e rollout.Ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	undrawn := ""
	if !e.Drawn {
		undrawn = ", not drawn"
	}
	l.heard = append(l.heard,
		fmt.Sprintf("%s %d %s fault %v spared %v %v%s", model, version, e.Code, e.Fault, e.Spared, e.Compute, undrawn))
}

func (l *listener) Begun(model string, version int64, b rollout.Beginning) {
	l.mu.Lock()
	defer l.mu.Unlock()
	past := !b.At.After(time.Now()) && b.Draw > 0
	l.heard = append(l.heard, fmt.Sprintf("%s %d begun, in the past %v", model, version, past))
}

// TestRolloutsHearOfEveryRequest: with every code, once for each request that came to a version.
func TestRolloutsHearOfEveryRequest(t *testing.T) {
	var l listener
	h := servertest.New(t, server.Config{Rollouts: &l})
	var next error
	broken, bad := errors.New("broken"), errors.New("a bad input")
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if next == nil || call.Version.Number == 1 && !errors.Is(next, bad) {
			return servertest.RunPolicy(ctx, call)
		}
		return next
	}
	for _, c := range []struct {
		err    error
		change func(*weftv1.PredictRequest)
		want   []string // the events that rollouts hear of
	}{
		{nil, nil, []string{"policy 2 begun, in the past true", "policy 2 OK fault false spared false 2ms"}},
		{nil, nil, []string{"policy 2 OK fault false spared false 2ms"}},
		{
			&catalog.ModelError{Model: "policy", Version: 2, Err: broken}, nil,
			[]string{"policy 2 Internal fault true spared false 0s"},
		},
		{
			&catalog.ModelError{Model: "policy", Version: 2, Err: broken, Mates: 3}, nil,
			[]string{"policy 2 Internal fault false spared false 0s"},
		},
		{
			&catalog.ModelError{Model: "policy", Version: 2, Err: bad}, nil,
			[]string{"policy 2 InvalidArgument fault false spared true 0s"},
		},
		{
			&sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}, nil,
			[]string{"policy 2 ResourceExhausted fault false spared true 0s"},
		},
		{sharedsched.ErrExpired, nil, []string{"policy 2 DeadlineExceeded fault false spared true 0s"}},
		{catalog.ErrDeviceLost, nil, []string{"policy 2 Unavailable fault false spared true 0s"}},
		{context.Canceled, nil, []string{"policy 2 Canceled fault false spared true 0s"}},
		{
			nil, func(q *weftv1.PredictRequest) { q.Inputs = nil },
			[]string{"policy 2 InvalidArgument fault false spared true 0s"},
		},
		{predict.ErrSuperseded, nil, nil},                                        // nobody waits for it any more
		{nil, func(q *weftv1.PredictRequest) { q.Model.Name = "nonesuch" }, nil}, // it came to no version
		// another
		{
			nil, func(q *weftv1.PredictRequest) { q.EpisodeId = "other" },
			[]string{"policy 2 begun, in the past true", "policy 2 OK fault false spared false 2ms"},
		},
	} {
		q := servertest.Observation("r")
		q.EpisodeId = "e"
		if c.change != nil {
			c.change(q)
		}
		next = c.err
		l.heard = nil
		_, err := h.Predictions.Predict(t.Context(), q)
		if diff := cmp.Diff(c.want, l.heard); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", status.Convert(err).Message(), diff)
		}
	}
}
