package predict_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// TestModelErrors passes errors of the models through to the wire; the table of status_test.go has them all.
func TestModelErrors(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(context.Context, *catalog.Call) error {
		return &sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, Queued: 5, MaxQueue: 5,
			RetryAfter: 30 * time.Millisecond,
		}
	}
	var trailer metadata.MD
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""), grpc.Trailer(&trailer))
	servertest.WantCode(t, err, codes.ResourceExhausted, "the queue is full: 5 of 5 requests wait")
	if diff := cmp.Diff([]string{"30"}, trailer.Get("grpc-retry-pushback-ms")); diff != "" {
		t.Errorf("pushback (-want +got):\n%s", diff)
	}
	if n := len(status.Convert(err).Details()); n != 2 {
		t.Errorf("%d details, want ErrorInfo and RetryInfo", n)
	}
}

// TestVersionTakesOver: the version that a request was routed to is replaced before it gets there.
func TestVersionTakesOver(t *testing.T) {
	h := servertest.New(t, server.Config{})
	tries := 0
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		tries++
		if call.Version.Number != 5 {
			next := servertest.PolicySnapshot()
			next.Revision = 2
			next.Model("policy").Versions = []*catalog.Version{
				servertest.PolicyVersion(2, catalog.Unloading),
				servertest.PolicyVersion(5, catalog.Ready),
			}
			h.Current.Store(next)
			return catalog.ErrNotReady
		}
		return servertest.RunPolicy(ctx, call)
	}
	resp, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetModel().GetVersion() != 5 || tries != 2 {
		t.Errorf("version %d answered after %d tries", resp.GetModel().GetVersion(), tries)
	}

	tries = 0
	h.Run = func(context.Context, *catalog.Call) error { tries++; return catalog.ErrNotReady }
	_, err = h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.Unavailable, catalog.ErrNotReady.Error())
	if tries != 3 {
		t.Errorf("%d tries of a version that never takes the request, want 3", tries)
	}
}

func TestCallerGoesAway(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate, left := servertest.NewGated(), make(chan error, 1)
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		err := gate.Run(ctx, call)
		left <- err
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := h.Predictions.Predict(ctx, servertest.Observation(""))
		answered <- err
	}()
	<-gate.Entered
	cancel()
	servertest.WantCode(t, <-answered, codes.Canceled, "")
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
}

func TestPanicAnswersOneRequest(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(context.Context, *catalog.Call) error { panic("secret") }
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.Internal, "its log has the details")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the caller learns %v", err)
	}
	h.Run = servertest.RunPolicy
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
		t.Errorf("the next request: %v", err)
	}
	// A panic outside predictions is caught by the interceptor.
	h.Current.Store(nil)
	_, err = h.Catalog.ListModels(t.Context(), &weftv1.ListModelsRequest{})
	servertest.WantCode(t, err, codes.Internal, "its log has the details")
}

func TestBrokenResultsAreTheModelsFault(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if err := servertest.RunPolicy(ctx, call); err != nil {
			return err
		}
		call.Results[1].Data = nil
		return nil
	}
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.Internal, `model "policy" version 2 failed on this input: output "value"`)
}

func TestObserver(t *testing.T) {
	h := servertest.New(t, server.Config{})
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
		t.Fatal(err)
	}
	bad := servertest.Observation("")
	bad.Model.Name = "../policy"
	if _, err := h.Predictions.Predict(t.Context(), bad); err == nil {
		t.Fatal("no error")
	}
	h.Run = func(context.Context, *catalog.Call) error { return servertest.ErrBoom }
	byVersion := servertest.Observation("")
	byVersion.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 1}
	if _, err := h.Predictions.Predict(t.Context(), byVersion); err == nil {
		t.Fatal("no error")
	}
	h.Run = func(context.Context, *catalog.Call) error { panic(1) }
	if _, err := h.Predictions.Predict(t.Context(), byVersion); err == nil {
		t.Fatal("no error")
	}
	events := h.Events()
	for i := range events {
		if events[i].Duration <= 0 {
			t.Errorf("event %d took %v", i, events[i].Duration)
		}
		x, ran := events[i].Execution, events[i].Code == "OK"
		if (x.Rows > 0) != (events[i].Version > 0) || (x.Outcome.Queue > 0) != ran {
			t.Errorf("event %d was executed so: %+v", i, x)
		}
		if e := &events[i]; e.Ended.Sub(e.Arrived) < e.Duration {
			t.Errorf("event %d came at %v and ended at %v, after %v", i, e.Arrived, e.Ended, e.Duration)
		}
		events[i].Arrived, events[i].Ended = time.Time{}, time.Time{}
		if (events[i].Message == "") != (events[i].Ending == predict.Answered) {
			t.Errorf("event %d has the message %q", i, events[i].Message)
		}
		events[i].Message = ""
		events[i].Duration, events[i].Execution = 0, predict.Execution{}
	}
	want := []predict.Event{
		{Number: 1, Model: "policy", Version: 2, Slot: "prod", Code: "OK", Ending: predict.Answered},
		{Number: 2, Code: "NotFound", Ending: predict.Refused, Reason: "NOT_FOUND"},
		{Number: 3, Model: "policy", Version: 1, Code: "Internal", Ending: predict.Failed, Reason: "INTERNAL"},
		{Number: 4, Model: "policy", Version: 1, Code: "Internal", Ending: predict.Failed, Reason: "INTERNAL"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
