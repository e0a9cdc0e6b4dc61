package activity

import (
	"slices"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// The bounds of histories. A history has 3,600 points of the last hour and 2,880 of the last day. It is forgotten,
// points of the day included, once its version was idle for forgottenAfter seconds; so is a version that is not
// resident.
const (
	mostHistories  = 64 // 260 KB each
	forgottenAfter = 3600
	hourSteps      = 3600
	daySteps       = 24 * 3600 / dayStep
	dayStep        = 30 // seconds
)

// history is how a version did in the last hour and day. Log.histories guards it.
type history struct {
	hour, day series
	// of the present step of the day
	sum     point
	latency histogram
}

// series are the latest points of one step each, the youngest of step last. Points is a ring by the number of the step;
// it is made when the first point is set.
type series struct {
	points []point
	last   int64
}

// point is one step: a second, or half a minute. Late counts requests that were answered after their target, lost the
// ones that were not answered. Waiting is the mean of what waited at the end of each second; p50 and p99 are in
// milliseconds, from the arrival to the answer.
type point struct {
	busy                 time.Duration
	answered, late, lost uint32
	batches, rows        uint32
	waiting              float32
	p50, p99             float32
}

// set keeps the point of a step, later than all before. Steps that were passed over were empty: their places still hold
// points of the round before.
func (s *series) set(step int64, most int, p point) {
	if s.points == nil {
		s.points = make([]point, most)
	}
	for i := max(s.last+1, step-int64(most)+1); i < step; i++ {
		s.points[i%int64(most)] = point{}
	}
	s.points[step%int64(most)], s.last = p, step
}

// at returns the point of a step, an empty one where nothing happened.
func (s *series) at(step int64) point {
	if most := int64(len(s.points)); most > 0 && step <= s.last && step > s.last-most {
		return s.points[step%most]
	}
	return point{}
}

// keep keeps how a version did in a second that is over, and at the end of each half minute the sum of its seconds. The
// quantiles of the half minute are those of all its requests, not the highest of its seconds.
func (h *history) keep(second int64, s *slot, waiting int) {
	p := point{
		busy: s.busy, answered: s.answered, late: s.late, lost: s.lost, batches: s.batches, rows: s.rows,
		waiting: float32(waiting), p50: float32(s.latency.quantile(0.5)), p99: float32(s.latency.quantile(0.99)),
	}
	h.hour.set(second, hourSteps, p)
	h.sum.add(p)
	h.latency.merge(&s.latency)
	if second%dayStep == dayStep-1 {
		h.sum.waiting /= dayStep
		h.sum.p50, h.sum.p99 = float32(h.latency.quantile(0.5)), float32(h.latency.quantile(0.99))
		h.day.set(second/dayStep, daySteps, h.sum)
		h.sum, h.latency = point{}, histogram{}
	}
}

// add adds what happened elsewhere in the same step, or in the step before. Quantiles are the highest of all.
func (p *point) add(o point) {
	p.busy += o.busy
	p.answered += o.answered
	p.late += o.late
	p.lost += o.lost
	p.batches += o.batches
	p.rows += o.rows
	p.waiting += o.waiting
	p.p50, p.p99 = max(p.p50, o.p50), max(p.p99, o.p99)
}

// tick ends a second: what happened in it goes into the histories. Versions that are not resident and did nothing for
// an hour are forgotten. Run calls it once for each second, in order; the state has no versions and devices while the
// server is idle.
func (l *Log) tick(second int64, state *sharedsched.State) {
	waiting := map[sharedsched.VersionID]int{}
	for i := range state.Versions {
		v := &state.Versions[i]
		waiting[v.ID] = v.Queued + v.Background + v.Waiting
	}
	l.histories.Lock()
	defer l.histories.Unlock()
	l.ticked = second + 1
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookLocked()
	// An idle server's state is not asked for: then the lanes are those of before.
	if len(state.Devices) > 0 {
		l.lanes = l.lanesLocked(state)
	}
	var gone []*tracked
	for _, t := range l.places {
		t.waiting = 0
		for _, id := range t.ids {
			t.waiting += waiting[id]
		}
		idle := second - t.latest
		if t.resident == nil && idle > forgottenAfter {
			gone = append(gone, t)
			continue
		}
		s := t.at(second)
		switch {
		// It rested for an hour: others may need the room.
		case t.history != nil && idle > forgottenAfter && t.waiting == 0:
			t.history, l.history = nil, l.history-1
		// It does something, and there is room.
		case t.history == nil && (s.second == second || t.waiting > 0) && l.history < mostHistories:
			t.history, l.history = &history{}, l.history+1
		}
		if t.history != nil {
			t.history.keep(second, s, t.waiting)
		}
	}
	if len(gone) > 0 {
		l.forgetLocked(gone)
	}
}

// lanesLocked counts the lanes of the devices that versions are or were on.
func (l *Log) lanesLocked(state *sharedsched.State) (lanes int) {
	used := map[string]bool{}
	for at := range l.places {
		used[at.device] = true
	}
	for i := range state.Devices {
		if d := &state.Devices[i]; used[d.Name] {
			lanes += d.Lanes
		}
	}
	return lanes
}

// forgetLocked forgets versions that are gone. It lets go of mu meanwhile. The rings refer to versions by their
// indexes: these are free for others only when nothing refers to them any more.
func (l *Log) forgetLocked(gone []*tracked) {
	for _, t := range gone {
		if t.history != nil {
			l.history--
		}
		delete(l.places, t.place)
		l.ofModel[t.model] = slices.DeleteFunc(l.ofModel[t.model], func(o *tracked) bool { return o == t })
		if len(l.ofModel[t.model]) == 0 {
			delete(l.ofModel, t.model)
		}
		l.all[t.index] = nil
	}
	// The numbers of the scheduler that led to one of them lead to nothing now.
	for id, of := range l.byID {
		if l.all[of.index] != of {
			delete(l.byID, id)
		}
	}
	// Nor does what the rings have of them, however long that takes; then their indexes are free.
	forget := func(of *int32) {
		if *of >= 0 && l.all[*of] == nil {
			*of = -1
		}
	}
	for _, kind := range []*ring[request]{&l.requests, &l.troubled.ring, &l.refused.ring} {
		seekLocked(l, kind, func(r *request) bool { forget(&r.of); return true })
	}
	seekLocked(l, &l.batches, func(b *batch) bool {
		forget(&b.of)
		forget(&b.passedOver)
		return true
	})
	for _, t := range gone {
		l.free = append(l.free, t.index)
	}
}

// lookLocked brings what is known of the versions in step with the models. It looks at the models that have changed
// since it looked last, and does nothing where none has.
func (l *Log) lookLocked() {
	now := l.Models()
	if now == l.looked {
		return
	}
	before := l.looked
	if before == nil {
		before = &catalog.Snapshot{}
	}
	l.looked = now
	if len(l.byID) > 2*len(l.places)+atOnce { // versions that were loaded again and again left their old ones
		clear(l.byID)
		for _, t := range l.places {
			for _, id := range t.ids {
				l.byID[id] = t
			}
		}
	}
	for name, m := range now.Models.Since(before.Models) {
		for _, t := range l.ofModel[name] {
			// It stays so unless it is found in the model below.
			t.resident, t.ids = nil, t.ids[:0]
		}
		if m == nil {
			continue
		}
		for _, v := range m.Versions {
			for _, r := range v.Replicas {
				t := l.placeLocked(place{v.Model, v.Number, r.Device})
				t.resident, t.serving = v, true
				if l.Slot != nil {
					t.slotName = l.Slot(m, v)
				}
				t.ids = append(t.ids, sharedsched.VersionID(r.Scheduler))
				l.byID[sharedsched.VersionID(r.Scheduler)] = t
			}
		}
	}
}

// idle reports whether nothing was executed or ended in the last half minute, and nothing waited at the latest tick:
// then nothing waits now.
func (l *Log) idle(second int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.places {
		if t.waiting > 0 || t.latest > 0 && second-t.latest < dayStep {
			return false
		}
	}
	return true
}

// History returns how a version did, or all versions of a model where it is 0, or the whole server where the model is
// "": by seconds of the last hour, or half minutes of the last day. A version on several devices is added up. Quantiles
// of several versions are the highest of theirs, since points keep no histograms.
func (l *Log) History(model string, version int64, day bool) *weftv1.History {
	step, most := int64(1), int64(hourSteps)
	if day {
		step, most = dayStep, daySteps
	}
	all := l.historiesOf(model, version, day)
	l.histories.Lock() // and not mu: this takes a while
	defer l.histories.Unlock()
	// The latest step that is over: the present one would look like a drop.
	last := l.ticked/step - 1
	out := &weftv1.History{Run: l.run, StepMs: float64(step) * 1e3}
	seconds := float32(step)
	for i := max(0, last-most+1); i <= last; i++ {
		var p point
		for _, s := range all {
			p.add(s.at(i))
		}
		out.AtMs = append(out.AtMs, float64(i*step)*1e3)
		out.Share = append(out.Share, round(float32(p.busy.Seconds())/seconds/float32(max(1, l.lanes))))
		out.RequestsPerSecond = append(out.RequestsPerSecond, round(float32(p.answered)/seconds))
		out.LostPerSecond = append(out.LostPerSecond, round(float32(p.lost)/seconds))
		out.LatePerSecond = append(out.LatePerSecond, round(float32(p.late)/seconds))
		out.Waiting = append(out.Waiting, round(p.waiting))
		out.RowsPerBatch = append(out.RowsPerBatch, round(float32(p.rows)/float32(max(1, p.batches))))
		out.P50Ms = append(out.P50Ms, round(p.p50))
		out.P99Ms = append(out.P99Ms, round(p.p99))
	}
	return out
}

// historiesOf returns the series of some versions. They may be read while histories is held, which the caller takes
// afterwards: the order of the locks is histories, then mu.
func (l *Log) historiesOf(model string, version int64, day bool) (all []*series) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, t := range l.places {
		switch {
		case t.history == nil || model != "" && at.model != model || version != 0 && at.version != version:
		case day:
			all = append(all, &t.history.day)
		default:
			all = append(all, &t.history.hour)
		}
	}
	return all
}
