package activity

import (
	"context"
	"encoding/hex"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

const (
	keptRequests = 65_536
	keptTroubled = 65_536
)

// request is a request that ended. Times are of the scheduler's clock. It has no pointers.
type request struct {
	number, batch           uint64 // batch: its last; 0: none
	arrived, ended          sharedsched.Time
	queued, started         sharedsched.Time // 0: it was not, or did not
	computed                sharedsched.Time // its last execution ended
	target, limit           time.Duration    // from its arrival; 0: none
	charged                 time.Duration
	id                      id
	identity, model, reason int32 // words
	of                      int32 // the version; -1: it was not routed to one
	executions, rows        int32
	trace                   [16]byte
	ending                  predict.Ending
	late                    bool
}

// troubled reports whether it was late, or not answered.
func (r *request) troubled() bool { return r.late || r.ending != predict.Answered }

// RequestDone notes a request that ended, as predict.Observer is told of it.
func (l *Log) RequestDone(_ context.Context, e *predict.Event) {
	x := &e.Execution.Outcome
	r := request{
		number: e.Number, arrived: l.at(e.Arrived), ended: l.at(e.Ended), target: e.Target, of: -1,
		rows: int32(e.Execution.Rows), ending: e.Ending,
	}
	if !e.Limit.IsZero() {
		r.limit = e.Limit.Sub(e.Arrived)
	}
	if x.Executions > 0 {
		r.computed = x.Ended
		r.started = r.computed.Add(-x.Compute)
		r.queued = r.started.Add(-x.Queue)
		r.charged, r.batch, r.executions = x.DeviceTime, x.Batch, int32(x.Executions)
	}
	if e.TraceID != "" {
		_, _ = hex.Decode(r.trace[:], []byte(e.TraceID)) // it is one
	}
	took := r.ended.Sub(r.arrived)
	r.late = e.Ending == predict.Answered && e.Target > 0 && took > e.Target

	l.mu.Lock()
	defer l.mu.Unlock()
	r.id = l.ids.add(e.ID)
	r.model, r.reason, r.identity = l.words.number(e.Model), l.words.number(e.Reason), l.words.number(e.Identity)
	if e.Version != 0 {
		of := l.placeLocked(place{e.Model, e.Version, x.Device})
		r.of = of.index
		of.count(l.secondOf(r.ended), &r, e.Reason, took)
	}
	l.requests.add(r)
	if r.troubled() {
		l.troubled.add(r)
		l.trouble.add(l.secondOf(r.ended))
	}
}

// at returns a time on the scheduler's clock.
func (l *Log) at(t time.Time) sharedsched.Time { return sharedsched.Time(t.Sub(l.Epoch)) }

// ends are the endings of requests.
var ends = [...]weftv1.RequestEnd{
	predict.Answered:  weftv1.RequestEnd_REQUEST_END_ANSWERED,
	predict.Refused:   weftv1.RequestEnd_REQUEST_END_REFUSED,
	predict.Expired:   weftv1.RequestEnd_REQUEST_END_EXPIRED,
	predict.Cancelled: weftv1.RequestEnd_REQUEST_END_CANCELLED,
	predict.Failed:    weftv1.RequestEnd_REQUEST_END_FAILED,
}

func (r *request) end() weftv1.RequestEnd {
	if r.late {
		return weftv1.RequestEnd_REQUEST_END_LATE
	}
	return ends[r.ending]
}

// forget forgets the version, if it is that one.
func (r *request) forget(index int32) {
	if r.of == index {
		r.of = -1
	}
}
