package activity

import (
	"context"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

const (
	keptRequests = 65_536
	keptTroubled = 65_536
	// maxIDBytes of the caller's name for a request are remembered: of longer ones the beginning.
	maxIDBytes = 64
)

// request is a request that ended. Times are of the scheduler's clock.
type request struct {
	number          uint64
	id, identity    string
	model           string
	of              *tracked // nil: it was not routed to a version
	arrived, ended  sharedsched.Time
	queued, started sharedsched.Time // 0: it was not, or did not
	computed        sharedsched.Time // its last execution ended
	target, limit   time.Duration    // from its arrival; 0: none
	charged         time.Duration
	batch           uint64 // its last; 0: none
	executions      int
	rows            int
	ending          predict.Ending
	late            bool
	reason          string
	trace           string
}

// troubled reports whether it was late, or not answered.
func (r *request) troubled() bool { return r.late || r.ending != predict.Answered }

// totals count what became of the requests for a model.
type totals struct {
	offered  uint64
	endings  [predict.Failed + 1]uint64
	inFlight int64
}

func (t *totals) message() *weftv1.RequestTotals {
	return &weftv1.RequestTotals{
		Offered: float64(t.offered), InFlight: float64(t.inFlight),
		Answered: float64(t.endings[predict.Answered]), Refused: float64(t.endings[predict.Refused]),
		Expired: float64(t.endings[predict.Expired]), Cancelled: float64(t.endings[predict.Cancelled]),
		Failed: float64(t.endings[predict.Failed]),
	}
}

// RequestOffered implements predict.Observer.
func (l *Log) RequestOffered(model string, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.totalsLocked(model)
	t.offered++
	t.inFlight++
}

// RequestDone implements predict.Observer.
func (l *Log) RequestDone(_ context.Context, e predict.Event) {
	x := &e.Execution.Outcome
	r := request{
		number: e.Number, id: clip(e.ID), identity: e.Identity, model: e.Model,
		arrived: l.at(e.Arrived), ended: l.at(e.Ended), target: e.Target,
		rows: e.Execution.Rows, ending: e.Ending, reason: e.Reason, trace: e.TraceID,
	}
	if !e.Limit.IsZero() {
		r.limit = e.Limit.Sub(e.Arrived)
	}
	if x.Executions > 0 {
		r.computed = x.Ended
		r.started = r.computed.Add(-x.Compute)
		r.queued = r.started.Add(-x.Queue)
		r.charged, r.batch, r.executions = x.DeviceTime, x.Batch, x.Executions
	}
	took := r.ended.Sub(r.arrived)
	r.late = e.Ending == predict.Answered && e.Target > 0 && took > e.Target

	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.totalsLocked(e.Model)
	t.endings[e.Ending]++
	t.inFlight--
	if e.Version != 0 {
		r.of = l.placeLocked(place{e.Model, e.Version, x.Device})
		r.of.count(l.secondOf(r.ended), &r, took)
	}
	l.requests.add(r)
	if r.troubled() {
		l.troubled.add(r)
		l.trouble.add(l.secondOf(r.ended))
	}
}

// clip shortens a name that a caller gave.
func clip(id string) string {
	if len(id) <= maxIDBytes {
		return id
	}
	return strings.Clone(id[:maxIDBytes]) // the rest of it is not kept
}

// at returns a time on the scheduler's clock.
func (l *Log) at(t time.Time) sharedsched.Time { return sharedsched.Time(t.Sub(l.Epoch)) }

func (l *Log) totalsLocked(model string) *totals {
	t := l.totals[model]
	if t == nil {
		t = &totals{}
		l.totals[model] = t
	}
	return t
}
