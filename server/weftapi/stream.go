package weftapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/intake"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/wire"
)

// PredictStream implements weftv1.PredictionServiceServer. It returns once everything that it accepted was answered.
func (s Predictions) PredictStream(rpc weftv1.PredictionService_PredictStreamServer) error {
	if err := s.Pipeline.Gate().EnterStream(); err != nil {
		return status.Fail(rpc.Context(), err, predict.Place{})
	}
	defer s.Pipeline.Gate().LeaveStream()
	st := &stream{
		api:      s.API,
		rpc:      rpc,
		slots:    make(chan struct{}, s.MaxInFlightPerStream),
		inFlight: make(map[string]*accepted),
	}
	err := st.run()
	st.answers.Wait()
	return err
}

// stream is one PredictStream call. A goroutine reads, one per accepted request runs it and sends the answer, and the
// handler waits, so that a drain reaches it while the reader waits for the caller.
type stream struct {
	api     *API
	rpc     weftv1.PredictionService_PredictStreamServer
	slots   chan struct{} // one element per request being read, run or answered; its capacity is the bound
	answers sync.WaitGroup

	sendMu sync.Mutex // gRPC allows one Send at a time; not held together with mu

	mu       sync.Mutex
	inFlight map[string]*accepted // guarded by mu; by request_id
	drained  bool                 // guarded by mu; nothing is accepted any more
}

// accepted is a request that has no answer yet.
type accepted struct {
	episode string
	cancel  context.CancelCauseFunc
}

// run accepts requests until the caller half-closes or the server drains (nil), or the stream breaks.
func (st *stream) run() error {
	ended := make(chan error, 1) // not waited for after a drain
	// The reader ends once the handler has returned at the latest: gRPC makes RecvMsg fail then.
	go func() {
		defer func() {
			if caught := predict.Recovered(st.rpc.Context(), st.api.Logger, "PredictStream", recover()); caught != nil {
				ended <- status.Of(caught, predict.Place{}).Err()
			}
		}()
		ended <- st.read()
	}()
	select {
	case <-st.api.Pipeline.Gate().Closed():
		st.mu.Lock()
		st.drained = true
		st.mu.Unlock()
		return nil
	case err := <-ended:
		return err
	}
}

// read accepts the messages that come, one per free slot, until there are no more (nil) or none is accepted any more.
func (st *stream) read() error {
	for {
		select {
		case st.slots <- struct{}{}:
		case <-st.rpc.Context().Done(): // as it is once the handler has returned
			return st.rpc.Context().Err()
		}
		c := st.api.request(true)
		asked := time.Now()
		err := st.rpc.RecvMsg(c)
		if err != nil || !st.begin() {
			c.release()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		st.accept(c, asked)
	}
}

// begin counts a request that is about to be accepted, unless the server drains.
func (st *stream) begin() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.drained {
		st.answers.Add(1)
	}
	return !st.drained
}

// accept starts a request, or answers at once that it cannot be. The request's slot is held until its answer was sent.
// Its time counts from when it came; one that came before the stream asked for it may have lain unread for want of a
// slot, which nothing tells apart, and counts from then.
func (st *stream) accept(c *codec, asked time.Time) {
	now := time.Now()
	limit, err := limitOf(c.in.Timeout, now.Add(-min(intake.Waited(st.rpc.Context(), now), now.Sub(asked))))
	ctx, cancel := context.WithCancelCause(st.rpc.Context())
	c.Limit = limit
	if c.refused != nil {
		err = c.refused
	}
	if err == nil {
		err = st.enter(c.ID, &accepted{episode: c.Episode, cancel: cancel}, c.in.Supersede)
	}
	go func() {
		defer st.answers.Done()
		defer cancel(nil)
		defer func() { <-st.slots }()
		if err != nil {
			st.api.Pipeline.Refuse(c.Model, true, err)
			st.send(c, predict.Place{}, err)
			c.release()
			return
		}
		at, err := st.api.Pipeline.Predict(ctx, &c.Request)
		// The caller may use the id, and what the request had of its quotas, again as soon as it has the answer.
		st.leave(c.ID)
		c.admission.Release()
		st.send(c, at, err)
		// Only now: an answer that its caller does not read is still in the server.
		st.api.Pipeline.Leave(&c.Request)
		if !errors.Is(err, predict.ErrPanic) {
			c.release()
		}
	}()
}

// limitOf returns the time after which the answer is worth nothing; zero leaves it to the model.
func limitOf(timeout *durationpb.Duration, arrival time.Time) (time.Time, error) {
	if timeout == nil {
		return time.Time{}, nil
	}
	if err := wire.CheckDuration("timeout", timeout, time.Nanosecond); err != nil {
		return time.Time{}, err
	}
	return predict.AnswerBy(arrival, arrival.Add(timeout.AsDuration())), nil
}

// enter registers a request under its id and lets it supersede older ones. Whether one of those is still queued, and
// can be cancelled, the scheduler decides.
func (st *stream) enter(id string, a *accepted, supersede bool) error {
	if id == "" {
		return &tensor.FieldError{
			Field: "request_id", Want: "an id, because answers on a stream come in any order", Got: "none",
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, taken := st.inFlight[id]; taken {
		return &tensor.FieldError{
			Field: "request_id", Want: "an id that no unanswered request of this stream has", Got: routing.Quote(id),
		}
	}
	if supersede {
		for _, older := range st.inFlight {
			if older.episode == a.episode {
				older.cancel(predict.ErrSuperseded)
			}
		}
	}
	st.inFlight[id] = a
	return nil
}

func (st *stream) leave(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.inFlight, id)
}

// send answers one request. It blocks while the caller does not read.
func (st *stream) send(c *codec, at predict.Place, err error) {
	answer := c.answer
	if err != nil {
		fault := status.Of(st.api.narrow(c.caller, err), at).Proto()
		answer = &weftv1.PredictStreamResponse{
			RequestId: c.ID, Result: &weftv1.PredictStreamResponse_Error{Error: fault},
		}
	}
	st.sendMu.Lock()
	defer st.sendMu.Unlock()
	// A failure means that the stream is broken, or breaks it: no caller is left to be answered, and the reader learns
	// of it too. Answers that are too large to send have become errors before (codec.Encode).
	_ = st.rpc.SendMsg(answer)
}
