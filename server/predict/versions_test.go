package predict_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/shadow"
)

var errModel = errors.New("the model is broken")

// TestBreakerTurnsNewEpisodesAway makes version 2 fail: requests of new episodes go to version 1, and say so. A version
// that is merely overloaded, or fails on some inputs of a batch while the others are answered, keeps its requests.
func TestBreakerTurnsNewEpisodesAway(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		opens bool
	}{
		"fault":                      {&catalog.ModelError{Model: "policy", Version: 2, Err: errModel}, true},
		"poison":                     {&catalog.ModelError{Model: "policy", Version: 2, Mates: 3, Err: errModel}, false},
		"overload":                   {catalog.ErrDeviceLost, false},
		"no answer that can be sent": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := servertest.New(t, server.Config{})
			h.Divide(&catalog.Traffic{
				Revision: 1,
				Split:    []catalog.Slot{{Name: "a", Version: 1, Weight: 0.001}, {Name: "b", Version: 2, Weight: 1000}},
			})
			h.Run = func(ctx context.Context, call *catalog.Call) error {
				if call.Version.Number == 2 {
					return c.err
				}
				return servertest.RunPolicy(ctx, call)
			}
			for i := range 30 {
				if _, err := h.Ask(t, fmt.Sprint("first", i)); err == nil && !c.opens {
					t.Fatal("a request was answered by another version")
				}
			}
			answer, err := h.Ask(t, "new")
			if !c.opens {
				if err == nil || h.Breakers() != nil && h.Breakers()[0].State != breaker.Closed {
					t.Errorf("the breaker opened: %v, %v", err, h.Breakers())
				}
				return
			}
			if err != nil || answer.GetModel().GetVersion() != 1 || answer.GetExecution().GetFailedOverFrom() != 2 ||
				answer.GetExecution().GetSlot() != "a" {
				t.Errorf("answer %v, %v; want version 1 in slot a instead of version 2", answer, err)
			}
			if states := h.Breakers(); len(states) != 2 || states[1].Version != 2 || states[1].State != breaker.Open {
				t.Errorf("breakers %+v", states)
			}
		})
	}
}

// offers is a mirror that remembers.
type offers struct {
	mu  sync.Mutex
	all []shadow.Offer // guarded by mu
}

func (o *offers) Offer(offer shadow.Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, offer)
}

func (o *offers) Summaries(model string, _ shadow.Detail) []shadow.Summary {
	return []shadow.Summary{{
		Model: model, PrimaryVersion: 1, ShadowVersion: 2, Offered: 20, Done: 9, Dropped: 7, Failed: 3, Pending: 1,
		Agreed:            8,
		PrimaryComputeP50: time.Millisecond, PrimaryComputeP99: 2 * time.Millisecond,
		ShadowComputeP50: 3 * time.Millisecond, ShadowComputeP99: 4 * time.Millisecond,
		Outputs: []shadow.OutputSummary{{
			Name: "action", MaxAbsolute: 5, MaxRelative: 6, MinCosine: 0.5,
			MeanCosine: 0.75, Cosines: 9, ArgmaxAgreement: 0.25, Rows: 9, Agreed: 10, Mismatched: 11,
		}},
		Failures: []string{"no such input"},
	}}
}

// TestAnsweredRequestsAreShown: answered requests are offered to the shadows that are ready, and nothing else is; and
// callers can read how the shadows compare.
func TestAnsweredRequestsAreShown(t *testing.T) {
	var o offers
	h := servertest.New(t, server.Config{Shadows: &o})
	h.Divide(&catalog.Traffic{
		Revision: 1, Split: []catalog.Slot{{Name: "a", Version: 1, Weight: 1}},
		// 3 is loading
		Shadow: []catalog.Shadow{
			{Version: 2, Sample: 1, Tolerance: 0.5, Tolerances: map[string]float64{"value": 0.25}},
			{Version: 3, Sample: 1},
		},
	})
	if _, err := h.Ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	h.Run = func(context.Context, *catalog.Call) error { return errModel }
	if _, err := h.Ask(t, "e"); err == nil {
		t.Fatal("the model did not fail")
	}
	h.Run = func(ctx context.Context, call *catalog.Call) error { // the shadow goes while its request is answered
		s := servertest.PolicySnapshot()
		s.Revision, s.Model("policy").Versions[1].State = 3, catalog.Unloading
		h.Current.Store(s)
		return servertest.RunPolicy(ctx, call)
	}
	if _, err := h.Ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	if len(o.all) != 1 {
		t.Fatalf("%d offers, want 1", len(o.all))
	}
	got := o.all[0]
	if len(got.Shadows) != 1 || got.Shadows[0].Version.Number != 2 ||
		got.Shadows[0].Shadow.ToleranceOf("action") != 0.5 || got.Shadows[0].Shadow.ToleranceOf("value") != 0.25 ||
		got.Episode != "e" || got.RequestID != "first of e" || got.Slot != "a" || len(got.Primary.Results) != 2 {
		t.Errorf("offer %+v", got)
	}
	summary, err := h.Catalog.GetShadowSummary(t.Context(), &weftv1.GetShadowSummaryRequest{Model: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.ShadowSummary{
		Model: "policy", PrimaryVersion: 1, ShadowVersion: 2, Offered: 20, Done: 9, Dropped: 7, Failed: 3, Pending: 1,
		Agreed:              8,
		PrimaryComputeMsP50: 1, PrimaryComputeMsP99: 2, ShadowComputeMsP50: 3, ShadowComputeMsP99: 4,
		Outputs: []*weftv1.ShadowOutput{{
			Name: "action", MaxAbsolute: 5, MaxRelative: 6, MinCosine: new(0.5), MeanCosine: new(0.75),
			ArgmaxAgreement: 0.25, Agreed: 10, Mismatched: 11,
		}},
		Failures: []string{"no such input"},
	}
	if diff := cmp.Diff([]*weftv1.ShadowSummary{want}, summary.GetSummaries(), protocmp.Transform()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}
