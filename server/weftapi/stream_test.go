package weftapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

func TestStreamAnswersInAnyOrder(t *testing.T) {
	h := servertest.New(t, server.Config{})
	first := make(chan struct{})
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if call.Version.Number == 1 {
			<-first
		}
		return servertest.RunPolicy(ctx, call)
	}
	s := h.OpenStream(t.Context(), t)
	slow := servertest.Observation("slow")
	slow.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 1}
	s.Send(&weftv1.PredictStreamRequest{Request: slow})
	s.Request("fast")
	s.Want("fast: version 2")
	close(first)
	s.Want("slow: version 1")
	s.End()
}

func TestStreamErrorAnswersOneRequest(t *testing.T) {
	h := servertest.New(t, server.Config{})
	s := h.OpenStream(t.Context(), t)
	unknown := servertest.Observation("a")
	unknown.Model.Name = "polcy"
	s.Send(&weftv1.PredictStreamRequest{Request: unknown})
	s.Want(`a: NotFound no model is named "polcy"; there is "policy"`)
	s.Send(&weftv1.PredictStreamRequest{})
	s.Want(`: InvalidArgument request_id: expected an id, because answers on a stream come in any order, got none`)
	s.Send(&weftv1.PredictStreamRequest{Request: servertest.Observation("b"), Timeout: durationpb.New(0)})
	s.Want(`b: InvalidArgument timeout: expected a duration of at least 1ns, got 0s 0ns`)
	s.Send(&weftv1.PredictStreamRequest{
		Request: servertest.Observation("b"),
		Timeout: &durationpb.Duration{Seconds: -1},
	})
	s.Want(`b: InvalidArgument timeout: expected a duration of at least 1ns, got -1s 0ns`)
	long := strings.Repeat("x", 257)
	s.Request(long)
	s.Want(long + `: InvalidArgument request_id: expected at most 256 bytes, got 257 bytes`)
	s.Request("c")
	s.Want("c: version 2")
	s.End()
}

func TestStreamErrorsCarryDetails(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(context.Context, *catalog.Call) error {
		return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 1, MaxQueue: 1}
	}
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	resp, err := s.RPC.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(status.FromProto(resp.GetError()).Details()); n != 2 {
		t.Errorf("%d details, want ErrorInfo and RetryInfo: %v", n, resp)
	}
	s.End()
}

func TestStreamRefusesDuplicateIDs(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate := servertest.NewGated()
	h.Run = gate.Run
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	<-gate.Entered
	s.Request("a")
	s.Want(`a: InvalidArgument request_id: expected an id that no unanswered request of this stream has, got "a"`)
	gate.Release <- struct{}{}
	s.Want("a: version 2")
	// Answered, the id is free again.
	s.Request("a")
	<-gate.Entered
	gate.Release <- struct{}{}
	s.Want("a: version 2")
	s.End()
}

func TestStreamTimeoutIsTheLimit(t *testing.T) {
	h := servertest.New(t, server.Config{})
	limits := make(chan time.Time, 1)
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		limits <- call.Limit
		return servertest.RunPolicy(ctx, call)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := h.OpenStream(ctx, t)
	before := time.Now()
	s.Send(&weftv1.PredictStreamRequest{Request: servertest.Observation("a"), Timeout: durationpb.New(time.Hour)})
	s.Want("a: version 2")
	const delivery = 10 * time.Millisecond // kept for the answer's way
	if limit := (<-limits).Add(delivery); limit.Before(before.Add(time.Hour)) ||
		limit.After(time.Now().Add(time.Hour)) {
		t.Errorf("limit is %v after the request, less %v", limit.Sub(before), delivery)
	}
	// The stream's own deadline is not a limit of its requests.
	s.Request("b")
	s.Want("b: version 2")
	if limit := <-limits; !limit.IsZero() {
		t.Errorf("limit is %v without a timeout", limit)
	}
	s.End()
}

func TestStreamSupersedes(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate := servertest.NewGated()
	running := make(chan struct{})
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if call.Version.Number == 1 { // is running already: its context cannot stop it
			gate.Entered <- call
			<-running
			return servertest.RunPolicy(ctx, call)
		}
		return gate.Run(ctx, call)
	}
	send := func(s *servertest.Caller, id, episode string, supersede bool) {
		req := servertest.Observation(id)
		req.EpisodeId = episode
		if strings.HasPrefix(id, "running") {
			req.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 1}
		}
		s.Send(&weftv1.PredictStreamRequest{Request: req, Supersede: supersede})
		<-gate.Entered
	}
	s, other := h.OpenStream(t.Context(), t), h.OpenStream(t.Context(), t)
	send(other, "elsewhere", "e", false)
	send(s, "running", "e", false)
	send(s, "old", "e", false)
	send(s, "older", "e", false)
	send(s, "another episode", "f", false)
	send(s, "no episode", "", false)
	send(s, "beside", "f", false)
	send(s, "new", "e", true)
	const superseded = "Aborted a newer request of this stream and episode took over"
	s.Want("old: "+superseded, "older: "+superseded)
	send(s, "newest", "e", true)
	s.Want("new: " + superseded)
	close(running)
	s.Want("running: version 1")
	close(gate.Release)
	s.Want("another episode: version 2", "no episode: version 2", "beside: version 2", "newest: version 2")
	other.Want("elsewhere: version 2")
	s.End()
	other.End()
}

// TestStreamStopsReading: with its maximum in flight the server reads on only after an answer.
func TestStreamStopsReading(t *testing.T) {
	h := servertest.New(t, server.Config{MaxInFlightPerStream: 2})
	gate := servertest.NewGated()
	h.Run = gate.Run
	s := h.OpenStream(t.Context(), t)
	for _, id := range []string{"a", "b", "c", "a"} {
		s.Request(id)
	}
	<-gate.Entered
	<-gate.Entered
	// Had the server read on, the last request would be refused as a duplicate, and its answer would come first: the
	// two requests in flight cannot be answered yet.
	for range 2 {
		gate.Release <- struct{}{}
	}
	got := []string{s.Answer(), s.Answer()}
	for _, a := range got {
		if a != "a: version 2" && a != "b: version 2" {
			t.Errorf("the first answers are %q", got)
		}
	}
	<-gate.Entered
	<-gate.Entered
	close(gate.Release)
	s.Want("c: version 2", "a: version 2")
	s.End()
}

func TestStreamHalfCloseAnswersTheRest(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate := servertest.NewGated()
	h.Run = gate.Run
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	s.Request("b")
	if err := s.RPC.CloseSend(); err != nil {
		t.Fatal(err)
	}
	<-gate.Entered
	<-gate.Entered
	close(gate.Release)
	s.Want("a: version 2", "b: version 2")
	s.End()
}

func TestStreamPanicAnswersOneRequest(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if call.Rows == 2 {
			panic("secret")
		}
		return servertest.RunPolicy(ctx, call)
	}
	s := h.OpenStream(t.Context(), t)
	s.Send(&weftv1.PredictStreamRequest{Request: servertest.Observation("bad", make([]float32, 8)...)})
	s.Want("bad: Internal internal error: the server failed while it handled this request; its log has the details")
	s.Request("good")
	s.Want("good: version 2")
	s.End()
}

func TestStreamCallerGoesAway(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate, left := servertest.NewGated(), make(chan error, 2)
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		err := gate.Run(ctx, call)
		left <- err
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := h.OpenStream(ctx, t)
	s.Request("a")
	s.Request("b")
	<-gate.Entered
	<-gate.Entered
	cancel()
	for range 2 {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a call ended with %v", err)
		}
	}
}

func TestDrainAnswersWhatStreamsHaveAccepted(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate := servertest.NewGated()
	h.Run = gate.Run
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	<-gate.Entered
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(t.Context()) }()
	// The server turns away new work while it drains.
	for {
		ctx, cancel := context.WithCancel(t.Context())
		probe, err := h.Predictions.PredictStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := probe.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err = probe.Recv()
		cancel()
		if status.Code(err) == codes.Unavailable {
			break
		}
	}
	select {
	case err := <-drained:
		t.Fatalf("drained (%v) with a request in flight", err)
	default:
	}
	gate.Release <- struct{}{}
	// Without half-closing: the server ends the stream by itself.
	s.Want("a: version 2", "EOF")
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}
