package predict_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/servertest"
)

var errSecret = errors.New("bad id in /tmp/secret/table")

// TestCallersMistakesCountForNobody sends requests on which both versions of a split fail, among others and alone. Each
// is tried elsewhere at most once, and no breaker opens; then one version is broken for all, and its breaker opens.
func TestCallersMistakesCountForNobody(t *testing.T) {
	for _, part := range []float64{0.05, 0.5, 0.9} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			h := servertest.New(t, server.Config{})
			h.Divide(&catalog.Traffic{
				Revision: 1,
				Split:    []catalog.Slot{{Name: "a", Version: 1, Weight: 1}, {Name: "b", Version: 2, Weight: 1}},
			})
			var mu sync.Mutex
			var runs int
			bad, broken := false, int64(0)
			h.Run = func(ctx context.Context, call *catalog.Call) error {
				mu.Lock()
				defer mu.Unlock()
				runs++
				if call.Limit.IsZero() && runs > 1 {
					t.Error("a second run has no limit")
				}
				if bad || call.Version.Number == broken {
					return &catalog.ModelError{Model: "policy", Version: call.Version.Number, Err: errSecret}
				}
				return servertest.RunPolicy(ctx, call)
			}
			rng := rand.New(rand.NewPCG(90211, uint64(100*part)))
			const n = 1000
			asked, most, told := 0, 0, 0
			for i := range n {
				runs, bad = 0, i >= 20 && rng.Float64() < part // who answers nobody has no excuse
				_, err := h.Ask(t, fmt.Sprint("e", i))
				asked, most = asked+runs, max(most, runs)
				if (err != nil) != bad {
					t.Fatalf("bad %v: %v", bad, err)
				}
				if status.Code(err) == codes.InvalidArgument {
					told++
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Fatalf("the caller learns of a path: %v", err)
				}
			}
			for _, s := range h.Breakers() {
				if s.State != breaker.Closed || s.Errors > 0 {
					t.Errorf("the breaker of version %d is %v with %d errors: %s", s.Version, s.State, s.Errors, s.Reason)
				}
			}
			if extra := asked - n; most != 2 || extra < 1 || float64(extra) > 40+0.1*n {
				t.Errorf("%d requests were run %d times, each at most %d times", n, asked, most)
			}
			if part <= 0.05 && told == 0 || told > asked-n {
				t.Errorf("%d callers were told that their input is wrong, after %d second runs", told, asked-n)
			}
			for i := range 1000 {
				runs, bad, broken = 0, false, 2
				_, _ = h.Ask(t, fmt.Sprint("then", i))
			}
			if s := h.Breakers(); s[0].State != breaker.Closed || s[1].State == breaker.Closed {
				t.Errorf("version 2 fails: %+v", s)
			}
		})
	}
}

// TestTriedElsewhereWithinItsLimit: a second run has the limit of the first, and crashes are not tried again.
func TestTriedElsewhereWithinItsLimit(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var limits []time.Time
	failed := catalog.ModelError{Model: "policy", Version: 2, Err: errors.New("it fails")}
	if _, err := h.Ask(t, "answered"); err != nil {
		t.Fatal(err)
	}
	h.Run = func(_ context.Context, call *catalog.Call) error {
		limits = append(limits, call.Limit)
		own := failed
		return &own
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q := servertest.Observation("r")
	_, err := h.Predictions.Predict(ctx, q)
	if status.Code(err) != codes.InvalidArgument || len(limits) != 2 || limits[0].IsZero() || limits[0] != limits[1] {
		t.Errorf("%v with limits %v", err, limits)
	}
	limits, failed.Crashed = nil, true
	_, err = h.Predictions.Predict(ctx, q)
	if status.Code(err) != codes.Internal || len(limits) != 1 {
		t.Errorf("an input that crashes the engine ran %d times: %v", len(limits), err)
	}
}
