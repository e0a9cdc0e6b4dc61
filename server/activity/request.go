package activity

import (
	"context"
	"encoding/hex"
	"hash/maphash"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// How many of the latest requests are remembered, of all and of each kind of trouble: a minute of a thousand a second.
// A flood of requests that are answered in time, or refused, does not push out the ones that were late or lost.
const (
	keptRequests = 65_536
	keptTroubled = 65_536
)

// request is a request that ended. Times are of the scheduler's clock. It has no pointers, so that the garbage
// collector does not look through the rings; its texts are numbers in Log.words, its name lies in Log.ids, and what its
// caller was told in Log.messages.
//
// Late says that it was answered, but after its target: the one that it named, or else its version's. It is measured
// from the arrival to the answer, and says nothing of how long the model took. An unanswered request is not late.
type request struct {
	number, batch           uint64 // batch: its last; 0: none
	arrived, ended          sharedsched.Time
	queued, started         sharedsched.Time // 0: it was not, or did not
	computed                sharedsched.Time // its last execution ended
	target, limit           time.Duration    // from its arrival; 0: none
	charged                 time.Duration
	id, message             id
	hash                    uint64 // of the whole name that id has the beginning of
	identity, model, reason int32  // words
	of                      int32  // the version; -1: it was not routed to one
	executions, rows        int32
	trace                   [16]byte
	ending                  predict.Ending
	late, repeated          bool
	episode                 id // in Log.episodes
	episodeHash             uint64
	step, skipped           uint64
	turn                    time.Duration // that it waited for the step before
}

// RequestDone notes a request that ended, as predict.Observer is told of it. The scheduler tells when the last
// execution ended, how long all took and how long the request had waited; the other times are reckoned back from that.
// Only texts and numbers of e are kept.
func (l *Log) RequestDone(_ context.Context, e *predict.Event) {
	x := &e.Execution.Outcome
	r := request{
		number: e.Number, arrived: l.at(e.Arrived), ended: l.at(e.Ended), target: e.Target, of: -1,
		rows: int32(e.Execution.Rows), ending: e.Ending,
		step: e.Step.Number, skipped: e.Step.Skipped, repeated: e.Step.Repeated, turn: e.Step.Waited,
	}
	if !e.Limit.IsZero() {
		r.limit = e.Limit.Sub(e.Arrived)
	}
	if x.Executions > 0 {
		if r.computed = x.Ended; x.Batch == 0 {
			r.computed = r.ended // and a moment before, where its answer was encoded
		}
		r.started = r.computed.Add(-x.Compute)
		r.queued = r.started.Add(-x.Queue)
		r.charged, r.batch, r.executions = x.DeviceTime, x.Batch, int32(x.Executions)
	}
	if e.ID != "" {
		r.hash = hashOf(e.ID)
	}
	if e.Step.Episode != "" {
		r.episodeHash = hashOf(e.Step.Episode)
	}
	if e.TraceID != "" {
		_, _ = hex.Decode(r.trace[:], []byte(e.TraceID)) // it is one
	}
	took := r.ended.Sub(r.arrived)
	r.late = e.Ending == predict.Answered && e.Target > 0 && took > e.Target

	l.mu.Lock()
	defer l.mu.Unlock()
	r.id, r.episode = l.ids.add(clip(e.ID)), l.episodes.add(clip(e.Step.Episode))
	if e.Model != "" { // else it may name models that only its caller may see
		r.message = l.messages.add(short(e.Message))
	}
	r.model, r.reason, r.identity = l.words.number(e.Model), l.words.number(e.Reason), l.words.number(e.Identity)
	if e.Version != 0 {
		of := l.placeLocked(place{e.Model, e.Version, x.Device})
		r.of = of.index
		of.count(l.secondOf(r.ended), &r, e.Reason, took)
	}
	l.requests.add(r)
	switch second := l.secondOf(r.ended); {
	case e.Ending == predict.Refused: // a flood of them must not push out the others
		l.refused.add(r, second)
	case r.late || e.Ending != predict.Answered:
		l.troubled.add(r, second)
	}
}

// remembered are the latest requests of a kind: late or lost ones, or refused ones. Counts reach back a minute, however
// few of them are still in the ring.
type remembered struct {
	ring[request]

	counts perSecond
}

func (m *remembered) add(r request, second int64) {
	m.ring.add(r)
	m.counts.add(second)
}

// lastMinute returns how many there were in the minute that ends now, and how many of them are forgotten.
func (m *remembered) lastMinute(now sharedsched.Time) (n, forgotten uint32) {
	minute := now.Add(-time.Minute)
	n = m.counts.since(int64(time.Duration(minute)/time.Second) + 1)
	kept := m.ring.added - m.since(func(r *request) bool { return r.ended > minute })
	// The ring has nothing older than the minute: it may have had more of it.
	if kept == uint64(m.most) {
		forgotten = n - min(n, uint32(kept))
	}
	return n, forgotten
}

// seed is the process's own, so that callers cannot choose names with equal hashes.
var seed = maphash.MakeSeed()

func hashOf(id string) uint64 { return maphash.String(seed, id) }

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

// end returns how the request ended for people, to whom late is an end of its own.
func (r *request) end() weftv1.RequestEnd {
	if r.late {
		return weftv1.RequestEnd_REQUEST_END_LATE
	}
	return ends[r.ending]
}
