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

// stream is what one PredictStream call knows of its own requests. It implements transport.Streamed; package transport
// reads, runs and answers.
type stream struct {
	api *API

	mu       sync.Mutex
	inFlight map[string]*accepted // guarded by mu; by request_id; from Enter until just before the answer is sent
}

// accepted is a request that has no answer yet. Its codec holds it (Exchange.Holds), and so releases it.
type accepted struct {
	of          *stream
	id, episode string
	begins      bool                    // the episode
	cancel      context.CancelCauseFunc // gives the request up, with the reason
}

// Release forgets the request before its answer is sent, so that a caller that has the answer may use the id again.
func (a *accepted) Release() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	delete(a.of.inFlight, a.id)
}

// New implements transport.Streamed.
func (st *stream) New() transport.Request { return st.api.request(true) }

// Enter implements transport.Streamed. It refuses a request with a bad timeout, without an id, or with an id that is
// taken.
func (st *stream) Enter(m transport.Request, arrival time.Time, cancel context.CancelCauseFunc) error {
	c := m.(*codec)
	limit, err := limitOf(c.in.Timeout, arrival)
	if err != nil {
		return err
	}
	c.Limit = limit
	a := &accepted{of: st, id: c.ID, episode: c.Episode, begins: c.BeginEpisode, cancel: cancel}
	if err := st.enter(a, c.in.Supersede); err != nil {
		return err
	}
	c.Holds = append(c.Holds, a)
	return nil
}

// limitOf returns the time after which the answer is worth nothing; zero leaves it to the model. The timeout counts
// from the arrival of the message, and some of it is kept for the way of the answer. The error is a *tensor.FieldError.
func limitOf(timeout *durationpb.Duration, arrival time.Time) (time.Time, error) {
	if timeout == nil {
		return time.Time{}, nil
	}
	if err := wire.CheckDuration("timeout", timeout, time.Nanosecond); err != nil {
		return time.Time{}, err
	}
	return predict.AnswerBy(arrival, arrival.Add(timeout.AsDuration())), nil
}

// enter registers a request under its id and lets it supersede the older ones of its episode, by cancelling them. One
// that is already running is not stopped: the scheduler decides. Nor is one that begins the episode: without it there
// would be none. It is called by the one goroutine that reads the stream; mu is for Release, which comes from many.
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
		// Also requests that have no episode supersede each other: "" is one episode.
		for _, older := range st.inFlight {
			if older.episode == a.episode && !older.begins {
				older.cancel(predict.ErrSuperseded)
			}
		}
	}
	st.inFlight[a.id] = a
	return nil
}

// Failed implements transport.Streamed. An error answers one request, and the stream goes on.
func (st *stream) Failed(m transport.Request, why *status.Status) any {
	return &weftv1.PredictStreamResponse{
		RequestId: predict.Clip(m.(*codec).ID), Result: &weftv1.PredictStreamResponse_Error{Error: why},
	}
}
