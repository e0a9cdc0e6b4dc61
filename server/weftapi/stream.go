package weftapi

import (
	"context"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/wire"
)

// PredictStream implements weftv1.PredictionServiceServer. It returns once everything that it accepted was answered.
func (s Predictions) PredictStream(rpc weftv1.PredictionService_PredictStreamServer) error {
	return s.Stream(rpc, &stream{api: s.API, inFlight: make(map[string]*accepted)})
}

// stream is one PredictStream call. It implements transport.Streamed.
type stream struct {
	api *API

	mu       sync.Mutex
	inFlight map[string]*accepted // guarded by mu; by request_id
}

// accepted is a request that has no answer yet.
type accepted struct {
	of          *stream
	id, episode string
	cancel      context.CancelCauseFunc
}

// Release forgets the request.
func (a *accepted) Release() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	delete(a.of.inFlight, a.id)
}

// New implements transport.Streamed.
func (st *stream) New() transport.Request { return st.api.request(true) }

// Enter implements transport.Streamed.
func (st *stream) Enter(m transport.Request, arrival time.Time, cancel context.CancelCauseFunc) error {
	c := m.(*codec)
	limit, err := limitOf(c.in.Timeout, arrival)
	if err != nil {
		return err
	}
	c.Limit = limit
	a := &accepted{of: st, id: c.ID, episode: c.Episode, cancel: cancel}
	if err := st.enter(a, c.in.Supersede); err != nil {
		return err
	}
	c.Holds = append(c.Holds, a)
	return nil
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
func (st *stream) enter(a *accepted, supersede bool) error {
	if a.id == "" {
		return &tensor.FieldError{
			Field: "request_id", Want: "an id, because answers on a stream come in any order", Got: "none",
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, taken := st.inFlight[a.id]; taken {
		return &tensor.FieldError{
			Field: "request_id", Want: "an id that no unanswered request of this stream has", Got: routing.Quote(a.id),
		}
	}
	if supersede {
		for _, older := range st.inFlight {
			if older.episode == a.episode {
				older.cancel(predict.ErrSuperseded)
			}
		}
	}
	st.inFlight[a.id] = a
	return nil
}

// Failed implements transport.Streamed.
func (st *stream) Failed(m transport.Request, why *status.Status) any {
	return &weftv1.PredictStreamResponse{
		RequestId: predict.Clip(m.(*codec).ID), Result: &weftv1.PredictStreamResponse_Error{Error: why},
	}
}
