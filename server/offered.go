package server

import (
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// offered is a prediction that reached the server, on its way to its end: the observer hears of both, whatever lies between.
type offered struct {
	observer RequestObserver // nil: nobody hears
	model    string          // "" if there was none of the name that came
	stream   bool
	arrival  time.Time
}

// offered tells the observer of a request; nil stands for one that could not be read.
func (s *Server) offered(req *weftv1.PredictRequest, stream bool) offered {
	if s.config.Observer == nil {
		return offered{}
	}
	o := offered{observer: s.config.Observer, stream: stream, arrival: time.Now()}
	if m := s.models.Snapshot().Model(req.GetModel().GetName()); m != nil {
		o.model = m.Name
	}
	o.observer.RequestOffered(o.model, stream)
	return o
}

// ended tells the observer how the request ended. at may be of a model that came to be after the request had; that is left out.
func (o *offered) ended(at place, code string) {
	if o.observer == nil {
		return
	}
	e := RequestEvent{
		Model: o.model, Code: code, Duration: time.Since(o.arrival), Stream: o.stream,
		Degraded: at.degraded, FailedOverFrom: at.failedOver,
	}
	if at.model == o.model {
		e.Version, e.Slot = at.version, at.slot
	}
	o.observer.RequestDone(e)
}

// unread counts a prediction whose message was refused.
func (s *Server) unread(method string, err error) {
	stream := method == weftv1.PredictionService_PredictStream_FullMethodName
	if stream || method == weftv1.PredictionService_Predict_FullMethodName {
		o := s.offered(nil, stream)
		o.ended(place{}, codeName(err))
	}
}
