package server

import (
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Recorder keeps requests and answers.
type Recorder interface {
	// Record never blocks: what there is no room for is dropped and counted. It must not change what it gets.
	Record(*Recorded)
}

// Recorded is a request and what came of it.
type Recorded struct {
	At      time.Time
	Request *weftv1.PredictRequest
	// Response is nil where the request was not answered; Code and Message tell why then.
	Response      *weftv1.PredictResponse
	Code, Message string
	Model         string
	Version       int64
	Slot          string
	// Limit is the time that the caller gave, less what is kept for the answer's way; 0 for none.
	Limit time.Duration
}

func recorded(arrival, limit time.Time, req *weftv1.PredictRequest, resp *weftv1.PredictResponse, at place, err error) *Recorded {
	r := &Recorded{
		At: arrival, Request: req, Response: resp, Code: codeName(err),
		Model: at.model, Version: at.version, Slot: at.slot,
	}
	if !limit.IsZero() {
		r.Limit = max(time.Microsecond, limit.Sub(arrival))
	}
	if err != nil {
		r.Response, r.Message = nil, clip(err.Error())
	}
	return r
}
