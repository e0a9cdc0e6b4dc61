package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/sharedsched"
)

// caller is the client's end of a stream.
type caller struct {
	t   *testing.T
	rpc weftv1.PredictionService_PredictStreamClient
}

func (h *house) openStream(t *testing.T) *caller {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	rpc, err := h.predict.PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{t, rpc}
}

func (c *caller) send(m *weftv1.PredictStreamRequest) {
	c.t.Helper()
	if err := c.rpc.Send(m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) request(id string) {
	c.t.Helper()
	c.send(&weftv1.PredictStreamRequest{Request: observation(id)})
}

// answer reads one answer and returns it as "id: version" or "id: code message".
func (c *caller) answer() string {
	c.t.Helper()
	resp, err := c.rpc.Recv()
	if err != nil {
		return err.Error()
	}
	switch r := resp.GetResult().(type) {
	case *weftv1.PredictStreamResponse_Response:
		if r.Response.GetRequestId() != resp.GetRequestId() {
			c.t.Errorf("answer %q carries the response to %q", resp.GetRequestId(), r.Response.GetRequestId())
		}
		return fmt.Sprintf("%s: version %d", resp.GetRequestId(), r.Response.GetModel().GetVersion())
	case *weftv1.PredictStreamResponse_Error:
		return fmt.Sprintf("%s: %v %s", resp.GetRequestId(), codes.Code(r.Error.GetCode()), r.Error.GetMessage())
	}
	return resp.GetRequestId() + ": nothing"
}

func (c *caller) want(answers ...string) {
	c.t.Helper()
	left := make(map[string]int)
	for _, a := range answers {
		left[a]++
	}
	for range answers {
		got := c.answer()
		if left[got] == 0 {
			c.t.Errorf("answer %q, want one of %q", got, answers)
		}
		left[got]--
	}
}

// end half-closes and wants the stream to end OK without another answer.
func (c *caller) end() {
	c.t.Helper()
	if err := c.rpc.CloseSend(); err != nil {
		c.t.Error(err)
	}
	c.want("EOF")
}

func TestStreamAnswersInAnyOrder(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	first := make(chan struct{})
	h.run = func(ctx context.Context, call *catalog.Call) error {
		if call.Version.Number == 1 {
			<-first
		}
		return runPolicy(ctx, call)
	}
	s := h.openStream(t)
	slow := observation("slow")
	slow.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 1}
	s.send(&weftv1.PredictStreamRequest{Request: slow})
	s.request("fast")
	s.want("fast: version 2")
	close(first)
	s.want("slow: version 1")
	s.end()
}

func TestStreamErrorAnswersOneRequest(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	s := h.openStream(t)
	unknown := observation("a")
	unknown.Model.Name = "polcy"
	s.send(&weftv1.PredictStreamRequest{Request: unknown})
	s.want(`a: NotFound no model is named "polcy"; there is "policy"`)
	s.send(&weftv1.PredictStreamRequest{})
	s.want(`: InvalidArgument request_id: expected an id, because answers on a stream come in any order, got none`)
	s.send(&weftv1.PredictStreamRequest{Request: observation("b"), Timeout: durationpb.New(0)})
	s.want(`b: InvalidArgument timeout: expected a duration of at least 1ns, got 0s 0ns`)
	s.send(&weftv1.PredictStreamRequest{Request: observation("b"), Timeout: &durationpb.Duration{Seconds: -1}})
	s.want(`b: InvalidArgument timeout: expected a duration of at least 1ns, got -1s 0ns`)
	long := strings.Repeat("x", 257)
	s.request(long)
	s.want(long + `: InvalidArgument request_id: expected at most 256 bytes, got 257 bytes`)
	s.request("c")
	s.want("c: version 2")
	s.end()
}

func TestStreamErrorsCarryDetails(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	h.run = func(context.Context, *catalog.Call) error {
		return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 1, MaxQueue: 1}
	}
	s := h.openStream(t)
	s.request("a")
	resp, err := s.rpc.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(status.FromProto(resp.GetError()).Details()); n != 2 {
		t.Errorf("%d details, want ErrorInfo and RetryInfo: %v", n, resp)
	}
	s.end()
}

func TestStreamRefusesDuplicateIDs(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	gate := newGated()
	h.run = gate.run
	s := h.openStream(t)
	s.request("a")
	<-gate.entered
	s.request("a")
	s.want(`a: InvalidArgument request_id: expected an id that no unanswered request of this stream has, got "a"`)
	gate.release <- struct{}{}
	s.want("a: version 2")
	// Answered, the id is free again.
	s.request("a")
	<-gate.entered
	gate.release <- struct{}{}
	s.want("a: version 2")
	s.end()
}

func TestStreamTimeoutIsTheLimit(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	limits := make(chan time.Time, 1)
	h.run = func(ctx context.Context, call *catalog.Call) error {
		limits <- call.Limit
		return runPolicy(ctx, call)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rpc, err := h.predict.PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &caller{t, rpc}
	before := time.Now()
	s.send(&weftv1.PredictStreamRequest{Request: observation("a"), Timeout: durationpb.New(time.Hour)})
	s.want("a: version 2")
	const delivery = 10 * time.Millisecond // kept for the answer's way
	if limit := (<-limits).Add(delivery); limit.Before(before.Add(time.Hour)) || limit.After(time.Now().Add(time.Hour)) {
		t.Errorf("limit is %v after the request, less %v", limit.Sub(before), delivery)
	}
	// The stream's own deadline is not a limit of its requests.
	s.request("b")
	s.want("b: version 2")
	if limit := <-limits; !limit.IsZero() {
		t.Errorf("limit is %v without a timeout", limit)
	}
	s.end()
}

func TestStreamSupersedes(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	gate := newGated()
	running := make(chan struct{})
	h.run = func(ctx context.Context, call *catalog.Call) error {
		if call.Version.Number == 1 { // is running already: its context cannot stop it
			gate.entered <- call
			<-running
			return runPolicy(ctx, call)
		}
		return gate.run(ctx, call)
	}
	send := func(s *caller, id, episode string, supersede bool) {
		req := observation(id)
		req.EpisodeId = episode
		if strings.HasPrefix(id, "running") {
			req.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 1}
		}
		s.send(&weftv1.PredictStreamRequest{Request: req, Supersede: supersede})
		<-gate.entered
	}
	s, other := h.openStream(t), h.openStream(t)
	send(other, "elsewhere", "e", false)
	send(s, "running", "e", false)
	send(s, "old", "e", false)
	send(s, "older", "e", false)
	send(s, "another episode", "f", false)
	send(s, "no episode", "", false)
	send(s, "beside", "f", false)
	send(s, "new", "e", true)
	const superseded = "Aborted a newer request of this stream and episode took over"
	s.want("old: "+superseded, "older: "+superseded)
	send(s, "newest", "e", true)
	s.want("new: " + superseded)
	close(running)
	s.want("running: version 1")
	close(gate.release)
	s.want("another episode: version 2", "no episode: version 2", "beside: version 2", "newest: version 2")
	other.want("elsewhere: version 2")
	s.end()
	other.end()
}

// TestStreamStopsReading: with its maximum in flight the server reads on only after an answer.
func TestStreamStopsReading(t *testing.T) {
	h := newHouse(t, server.Config{MaxInFlightPerStream: 2}, server.Transport{})
	gate := newGated()
	h.run = gate.run
	s := h.openStream(t)
	for _, id := range []string{"a", "b", "c", "a"} {
		s.request(id)
	}
	<-gate.entered
	<-gate.entered
	// Had the server read on, the last request would be refused as a duplicate, and its answer would come first: the two
	// requests in flight cannot be answered yet.
	for range 2 {
		gate.release <- struct{}{}
	}
	got := []string{s.answer(), s.answer()}
	for _, a := range got {
		if a != "a: version 2" && a != "b: version 2" {
			t.Errorf("the first answers are %q", got)
		}
	}
	<-gate.entered
	<-gate.entered
	close(gate.release)
	s.want("c: version 2", "a: version 2")
	s.end()
}

func TestStreamHalfCloseAnswersTheRest(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	gate := newGated()
	h.run = gate.run
	s := h.openStream(t)
	s.request("a")
	s.request("b")
	if err := s.rpc.CloseSend(); err != nil {
		t.Fatal(err)
	}
	<-gate.entered
	<-gate.entered
	close(gate.release)
	s.want("a: version 2", "b: version 2")
	s.end()
}

func TestStreamPanicAnswersOneRequest(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	h.run = func(ctx context.Context, call *catalog.Call) error {
		if call.Rows == 2 {
			panic("secret")
		}
		return runPolicy(ctx, call)
	}
	s := h.openStream(t)
	s.send(&weftv1.PredictStreamRequest{Request: observation("bad", make([]float32, 8)...)})
	s.want("bad: Internal internal error: the server failed while it handled this request; its log has the details")
	s.request("good")
	s.want("good: version 2")
	s.end()
}

func TestStreamCallerGoesAway(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	gate, left := newGated(), make(chan error, 2)
	h.run = func(ctx context.Context, call *catalog.Call) error {
		err := gate.run(ctx, call)
		left <- err
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	rpc, err := h.predict.PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &caller{t, rpc}
	s.request("a")
	s.request("b")
	<-gate.entered
	<-gate.entered
	cancel()
	for range 2 {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a call ended with %v", err)
		}
	}
}

func TestDrainAnswersWhatStreamsHaveAccepted(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	gate := newGated()
	h.run = gate.run
	s := h.openStream(t)
	s.request("a")
	<-gate.entered
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(t.Context()) }()
	// The server turns away new work while it drains.
	for {
		ctx, cancel := context.WithCancel(t.Context())
		probe, err := h.predict.PredictStream(ctx)
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
	gate.release <- struct{}{}
	// Without half-closing: the server ends the stream by itself.
	s.want("a: version 2", "EOF")
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}
