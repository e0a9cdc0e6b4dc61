package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// maxReroutes is how often a request is routed again because its version stopped being ready between routing and submission,
// as happens once when a new version takes over.
const maxReroutes = 2

// RequestEvent tells how one prediction ended.
type RequestEvent struct {
	// Model is the one asked for, empty if there was none of that name when the request came: names that came with requests are not
	// repeated. Version and Slot are zero when the request could not be routed.
	Model   string
	Version int64
	Slot    string
	// Code is the gRPC code's name, such as OK or ResourceExhausted.
	Code string
	// Duration is from the decoded request to its answer, before encoding for the wire.
	Duration time.Duration
	Stream   bool
	// Degraded and FailedOverFrom are as in the answer's execution.
	Degraded       bool
	FailedOverFrom int64
}

// Predict implements weftv1.PredictionServiceServer.
func (s *Server) Predict(ctx context.Context, req *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	var limit time.Time
	if deadline, ok := ctx.Deadline(); ok {
		limit = answerBy(time.Now(), deadline)
	}
	admission := s.gate.enterRequest()
	if admission == nil {
		defer s.gate.leaveRequest()
	}
	resp, at, err := s.predict(ctx, req, limit, false, admission)
	if err != nil {
		return nil, fail(ctx, err, at)
	}
	return resp, nil
}

// Of the time that a client gives, a part is kept for the answer's way to it: encoding, the network, and the answers of the same
// batch that go first.
const (
	deliveryShare = 50 // one fiftieth
	maxDelivery   = 10 * time.Millisecond
)

// answerBy returns when an answer must be there to reach its client by the deadline.
func answerBy(now, deadline time.Time) time.Time {
	return deadline.Add(-min(max(0, deadline.Sub(now)/deliveryShare), maxDelivery))
}

// predict takes one request all the way, for every protocol and stream. A zero limit leaves it to the model. admission is what
// the gate said; the caller enters and leaves it, since the request is in the server until its answer was sent. at says what an
// error is about.
func (s *Server) predict(ctx context.Context, req *weftv1.PredictRequest, limit time.Time, stream bool, admission error) (resp *weftv1.PredictResponse, at place, err error) {
	offered := s.offered(req, stream)
	defer func() { offered.ended(at, codeName(err)) }()
	if recorder := s.config.Recorder; recorder != nil && admission == nil {
		arrival := time.Now()
		defer func() { recorder.Record(recorded(arrival, limit, req, resp, at, err)) }()
	}
	if s.config.Rollouts != nil {
		defer func() { s.observe(at, resp, err) }()
	}
	defer func() { recovery{s.log}.handle(ctx, "Predict", recover(), &err) }()

	if admission != nil {
		return nil, at, admission
	}
	if err := checkRequest(req); err != nil {
		return nil, at, err
	}
	serial := s.serial.Add(1)
	for tries := 0; ; tries++ {
		resp, err = s.routeAndRun(ctx, req, limit, serial, &at)
		if !stoppedBeingReady(err) || tries == maxReroutes {
			break
		}
	}
	if err == nil {
		err = s.checkAnswer(resp, stream)
	}
	if err != nil {
		s.withheld.tell(ctx, req, at, err)
		return nil, at, err
	}
	return resp, at, nil
}

// answerTooLargeError: the answer is larger than a message may be.
type answerTooLargeError struct {
	bytes, limit int
	remedy       string // how to ask for less
}

func (e *answerTooLargeError) Error() string {
	return fmt.Sprintf("the answer takes %d bytes, of at most %d; %s, or raise --max-message-bytes", e.bytes, e.limit, e.remedy)
}

// checkAnswer refuses an answer that gRPC would refuse to send, which on a stream would end it for every request.
func (s *Server) checkAnswer(resp *weftv1.PredictResponse, stream bool) error {
	size := proto.Size(resp)
	if stream {
		size = proto.Size(streamAnswer(resp.GetRequestId(), resp))
	}
	if size > s.config.MaxMessageBytes {
		return &answerTooLargeError{bytes: size, limit: s.config.MaxMessageBytes, remedy: "ask for fewer outputs or rows"}
	}
	return nil
}

// stoppedBeingReady reports whether the version refused a call that was routed to it while it was ready.
func stoppedBeingReady(err error) bool {
	return errors.Is(err, catalog.ErrNotReady) || errors.Is(err, sharedsched.ErrRemoved)
}

// route finds the version that answers a request.
func (s *Server) route(req *weftv1.PredictRequest, serial uint64) (routing.Route, error) {
	return s.router.Route(s.models.Snapshot(), routing.Request{
		Model: req.GetModel().GetName(), Choice: choiceOf(req.GetModel()),
		Episode: req.GetEpisodeId(), RequestID: req.GetRequestId(), Serial: serial,
	})
}

// routeAndRun sets *at as soon as the request is routed.
func (s *Server) routeAndRun(ctx context.Context, req *weftv1.PredictRequest, limit time.Time, serial uint64, at *place) (*weftv1.PredictResponse, error) {
	*at = place{}
	route, err := s.route(req, serial)
	if err != nil {
		return nil, err
	}
	version := route.Version
	*at = place{
		model: version.Model, version: version.Number, slot: route.Slot, degraded: route.Degraded, failedOver: route.FailedOverFrom,
	}
	if s.config.Rollouts != nil && !route.Began.IsZero() {
		s.config.Rollouts.Begun(version.Model, version.Number, route.Began)
	}
	call, came, err := newCall(req, version)
	if err != nil {
		return nil, err
	}
	call.Limit = limit
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	err = s.models.Predict(ctx, call)
	if s.judge(call, err); err != nil {
		return nil, err
	}
	outputs, err := encodeOutputs(version.Signature.Outputs, call.Wanted, call.Results, answersRaw(req.GetOutputEncoding(), &came))
	if err != nil {
		return nil, &catalog.ModelError{Model: version.Model, Version: version.Number, Err: err}
	}
	s.shadow(req, call, &route)
	if req.GetEndOfEpisode() {
		s.router.End(version.Model, req.GetEpisodeId())
	}
	execution := executionInfo(route.Slot, &call.Outcome)
	execution.RoutingDegraded, execution.FailedOverFrom = route.Degraded, route.FailedOverFrom
	return &weftv1.PredictResponse{
		Outputs:   outputs,
		Model:     resolvedSpec(version),
		RequestId: req.GetRequestId(),
		Execution: execution,
	}, nil
}

func resolvedSpec(v *catalog.Version) *weftv1.ModelSpec {
	return &weftv1.ModelSpec{Name: v.Model, VersionChoice: &weftv1.ModelSpec_Version{Version: v.Number}}
}

var flushReasons = map[sharedsched.FlushReason]weftv1.FlushReason{
	sharedsched.FlushBudgetReached:           weftv1.FlushReason_FLUSH_REASON_BUDGET_REACHED,
	sharedsched.FlushTimeout:                 weftv1.FlushReason_FLUSH_REASON_TIMEOUT,
	sharedsched.FlushSingleRequestOverBudget: weftv1.FlushReason_FLUSH_REASON_SINGLE_REQUEST_OVER_BUDGET,
	sharedsched.FlushFull:                    weftv1.FlushReason_FLUSH_REASON_FULL,
	sharedsched.FlushDeviceIdle:              weftv1.FlushReason_FLUSH_REASON_DEVICE_IDLE,
	sharedsched.FlushDeadline:                weftv1.FlushReason_FLUSH_REASON_DEADLINE,
	sharedsched.FlushDrain:                   weftv1.FlushReason_FLUSH_REASON_DRAIN,
	sharedsched.FlushUnbatched:               weftv1.FlushReason_FLUSH_REASON_UNBATCHED,
}

func executionInfo(slot string, o *sharedsched.Outcome) *weftv1.ExecutionInfo {
	return &weftv1.ExecutionInfo{
		Slot:          slot,
		QueueUs:       o.Queue.Microseconds(),
		ComputeUs:     o.Compute.Microseconds(),
		BatchRequests: int32(o.BatchRequests),
		BatchRows:     int32(o.BatchRows),
		PaddedRows:    int32(o.PaddedRows),
		FlushReason:   flushReasons[o.Reason],
		DeviceUs:      o.DeviceTime.Microseconds(),
		Device:        o.Device,
		Executions:    int32(o.Executions),
	}
}
