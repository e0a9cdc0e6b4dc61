package activity

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// place names a version on a device. The version is 0, and the model "", of one that was gone when it was asked for.
type place struct {
	model   string
	version int64
	device  string
}

// windowSeconds is how many seconds rates, shares and quantiles are of. More would show a change later; fewer would
// have quantiles of too few requests.
const windowSeconds = 10

// tracked is how a version on a device did. Log.mu guards it, and Log.histories the inside of its history.
type tracked struct {
	place
	index   int32 // among all
	serving bool  // it was published as ready
	totals  versionTotals
	lost    map[string]uint64    // requests that were not answered, by their reasons, which are constants
	window  *[windowSeconds]slot // by second; nil: nothing happened yet
	minute  *lastMinute          // nil: no request was late or lost yet
	waiting int                  // requests, as of the last second
	history *history             // nil: it was not active, or others were before
	latest  int64                // second of the latest activity

	// As of the latest look at the models: what the version is, nil if it is not resident.
	resident *catalog.Version
	slotName string
	ids      []sharedsched.VersionID
}

// versionTotals count since the run began. Padded are the rows beyond those of requests. Busy includes the device time
// of proofs; all else is of work for callers.
type versionTotals struct {
	batches, rows, padded uint64
	busy                  time.Duration
	flushes               [sharedsched.FlushUnbatched + 1]uint64
	answered, late        uint64
}

// slot is one second of a version. Late requests are among the answered ones, lost ones are not. Background is part of
// busy. The latency is from the arrival of answered requests to their answers.
type slot struct {
	second               int64
	answered, late, lost uint32
	batches, rows        uint32
	busy, background     time.Duration
	latency              histogram
}

// slot returns the slot of a second, emptied if it was of an earlier one. Batches that ended a moment ago may come
// after requests of the next second: they count for the latest.
func (t *tracked) slot(second int64) *slot {
	if t.window == nil {
		t.window = &[windowSeconds]slot{}
	}
	s := &t.window[second%windowSeconds]
	if s.second < second {
		*s = slot{second: second}
	}
	t.latest = max(t.latest, second)
	return s
}

// at returns the slot of a second, an empty one where nothing happened.
func (t *tracked) at(second int64) *slot {
	if t.window != nil && t.window[second%windowSeconds].second == second {
		return &t.window[second%windowSeconds]
	}
	return &slot{}
}

// count counts a request that ended, in the second in which it did.
func (t *tracked) count(second int64, r *request, reason string, took time.Duration) {
	s := t.slot(second)
	if r.ending != predict.Answered {
		s.lost++
		t.lost[reason]++
		t.troubled().lost.add(second)
		return
	}
	s.answered++
	t.totals.answered++
	s.latency.add(took)
	if r.late {
		s.late++
		t.totals.late++
		t.troubled().late.add(second)
	}
}

// lastMinute counts requests that were late, and lost. It takes 1.4 KB, and is made when it is needed.
type lastMinute struct{ late, lost perSecond }

// troubled returns the counts of the last minute, made with the first request that was late or lost.
func (t *tracked) troubled() *lastMinute {
	if t.minute == nil {
		t.minute = &lastMinute{}
	}
	return t.minute
}

// sum returns the sum of the slots from a second on.
func (t *tracked) sum(from int64) (all slot) {
	if t.window == nil {
		return all
	}
	for i := range t.window {
		s := &t.window[i]
		if s.second < from {
			continue
		}
		all.answered += s.answered
		all.late += s.late
		all.lost += s.lost
		all.batches += s.batches
		all.rows += s.rows
		all.busy += s.busy
		all.background += s.background
		all.latency.merge(&s.latency)
	}
	return all
}

// perSecond counts something for each of the last 60 seconds: a ring by the second, each count with the second that it
// is of, so that nothing need be cleared as time passes.
type perSecond struct {
	seconds [60]int64
	counts  [60]uint32
}

// add counts one. A second that comes after a later one of the same place would replace that: seconds rise, or nearly.
func (p *perSecond) add(second int64) {
	if i := second % 60; p.seconds[i] != second {
		p.seconds[i], p.counts[i] = second, 1
	} else {
		p.counts[i]++
	}
}

// since returns the count from a second on.
func (p *perSecond) since(from int64) (n uint32) {
	for i, second := range p.seconds {
		if second >= from {
			n += p.counts[i]
		}
	}
	return n
}

// name is how people call a version.
func (t *tracked) name() string { return name(t.model, int32(t.version)) }
