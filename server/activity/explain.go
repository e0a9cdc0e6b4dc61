package activity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/sharedsched"
)

// mostMates is how many requests of the same batch are named.
const mostMates = 64

// Explain tells the way of the latest request of a name: that of its caller, or else of its episode, or #N for the
// server's own number, which may do without the # where no caller has that name. Nil: it is not remembered. The
// request, its batch and what held it up are searched one after the other, with mu let go of in between: a batch may be
// forgotten meanwhile.
func (l *Log) Explain(name string) *weftv1.Explanation {
	l.reading.Lock()
	defer l.reading.Unlock()
	// It is asked for before mu is taken, as it may wait for the scheduler.
	state := l.State()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.findLocked(name)
	if found == nil {
		return nil
	}
	names := l.lookupLocked()
	r := names.tell(found)
	e := &weftv1.Explanation{
		Number: uint32(r.number), Id: r.id, Model: r.model, Identity: r.identity,
		Arrived: timestamppb.New(l.Epoch.Add(time.Duration(r.arrived))),
		End:     r.end(), Reason: r.reason, TraceId: r.trace,
		EndedMs:  ms(r.ended.Sub(r.arrived)),
		TargetMs: ms(r.target), LimitMs: ms(r.limit), ChargedMs: ms(r.charged),
		Episode: l.episodes.text(found.episode), Step: r.step, TurnMs: ms(r.turn),
		Repeated: r.repeated, SkippedSteps: r.skipped,
	}
	if r.of != nil {
		e.Version = int32(r.of.version)
	}
	// Times are relative to the arrival. A request that was never executed has none of these.
	if r.executions > 0 {
		e.AdmittedMs, e.StartedMs = ms(r.queued.Sub(r.arrived)), ms(r.started.Sub(r.arrived))
		e.ComputedMs = ms(r.computed.Sub(r.arrived))
	}
	b := l.batchLocked(r.batch)
	if b != nil && r.of != nil {
		e.Batch = l.explainedLocked(b, &r)
	}
	e.Holders = l.holdersLocked(&r, b, &state)
	e.Story = story(&r, e, b, laneOf(b, e.GetBatch().GetDevice(), state.Devices), names.stepOf(&r, b))
	if told := l.messages.text(found.message); told != "" {
		e.Story = append(e.Story, "Its caller was told: "+told)
	}
	return e
}

// stepOf names the version that a batch is of, where that is a step of the pipeline that was asked.
func (k *lookup) stepOf(r *told, b *batch) string {
	if b == nil {
		return ""
	}
	of := k.version(b.of)
	if of == nil || of.model == r.model {
		return ""
	}
	return " of " + name(of.model, int32(of.version))
}

// laneOf names the lane of a device on which a batch ran, counted from 1; "" where the device has one, or is gone.
func laneOf(b *batch, device string, devices []sharedsched.DeviceState) string {
	for i := range devices {
		if d := &devices[i]; b != nil && d.Name == device && d.Lanes > 1 {
			return fmt.Sprintf(", lane %d of %d", b.lane-d.First+1, d.Lanes)
		}
	}
	return ""
}

// findLocked finds a request by its name. Hashes are compared, not names: the whole name of a request is not kept, and
// two names with equal hashes are too unlikely to matter.
func (l *Log) findLocked(name string) *request {
	hash := hashOf(name)
	if r := l.latestLocked(func(r *request) bool { return r.hash == hash && r.id.size > 0 }); r != nil {
		return r
	}
	if r := l.latestLocked(func(r *request) bool { return r.episodeHash == hash && r.episode.size > 0 }); r != nil {
		return r
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(name, "#"), 10, 32)
	if err != nil {
		return nil
	}
	return l.latestLocked(func(r *request) bool { return uint32(r.number) == uint32(number) }) // as it is shown
}

// latestLocked returns a copy of the latest request that is it. The rings of troubled and refused requests reach
// further back than that of all requests, so that they are looked through where it has none. A copy, because the ring's
// entry may be overwritten as soon as mu is let go of.
func (l *Log) latestLocked(is func(*request) bool) (found *request) {
	for _, of := range []*ring[request]{&l.requests, &l.troubled.ring, &l.refused.ring} {
		seekLocked(l, of, func(r *request) bool {
			if !is(r) {
				return true
			}
			if found == nil || r.ended > found.ended {
				own := *r
				found = &own
			}
			return false
		})
		if found != nil && of == &l.requests { // it has the latest of all
			break
		}
	}
	return found
}

// batchLocked returns a copy of the batch of a number; nil if it is not remembered. It looks at every batch that is
// remembered until it has found it.
func (l *Log) batchLocked(number uint64) (found *batch) {
	if number == 0 {
		return nil
	}
	seekLocked(l, &l.batches, func(b *batch) bool {
		if b.number == number {
			own := *b
			found = &own
		}
		return found == nil
	})
	return found
}

// explainedLocked describes the batch of a request. Its mates are searched from the youngest request back to one that
// ended before the batch started: none before that can have been in it. A mate whose last batch was another one is not
// named.
func (l *Log) explainedLocked(b *batch, r *told) *weftv1.ExplainedBatch {
	out := &weftv1.ExplainedBatch{
		Number: uint32(b.number), Device: r.of.device, Lane: uint32(b.lane),
		Requests: uint32(b.tasks), Rows: uint32(b.rows), Size: uint32(b.padded),
		DurationMs: ms(b.elapsed), DeviceMs: ms(b.deviceTime), ExpectedMs: ms(b.estimated),
		Reason: b.reason.String(), Rule: b.rule.String(), SlackMs: ms(b.slack),
	}
	most := min(int(b.tasks)-1, mostMates)
	seekLocked(l, &l.requests, func(mate *request) bool {
		if mate.batch == b.number && mate.number != r.number && len(out.GetMates()) < most {
			out.Mates = append(out.Mates, uint32(mate.number))
		}
		return len(out.GetMates()) < most && mate.ended >= b.started
	})
	return out
}

// holdersLocked returns the versions that used the device while a request waited, the one that used it longest first.
// Of a request that was not executed that is the device of its version, and all the time from its arrival to its end.
// Own is the batch of the request, which does not count; nil: it is not remembered. The times of batches on several
// lanes add up, so that their sum may be more than the time that the request waited.
func (l *Log) holdersLocked(r *told, own *batch, state *sharedsched.State) []*weftv1.Holder {
	from, to := r.queued, r.started
	if r.executions == 0 {
		from, to = r.arrived, r.ended
	}
	if r.of == nil || to <= from {
		return nil
	}
	by := map[*tracked]*weftv1.Holder{}
	// hold counts the part of a batch that lies within the wait.
	hold := func(of *tracked, begin, end sharedsched.Time) {
		held := min(to, end).Sub(max(from, begin))
		if of == nil || of.device != r.of.device || held <= 0 {
			return
		}
		if by[of] == nil {
			by[of] = &weftv1.Holder{Model: of.model, Version: int32(of.version)}
		}
		by[of].Batches++
		by[of].Ms += ms(held)
	}
	seekLocked(l, &l.batches, func(b *batch) bool {
		if own == nil || b.number != own.number {
			names := l.lookupLocked()
			hold(names.version(b.of), b.started, b.ended())
		}
		return b.ended() > from // batches are kept by their ends
	})
	for i := range state.Devices { // the batch that it gave up waiting for may run still
		for j := range state.Devices[i].Running {
			b := &state.Devices[i].Running[j]
			hold(l.ofLocked(b.Version, b.Device), b.Started, to)
		}
	}
	return slices.SortedFunc(maps.Values(by), func(a, b *weftv1.Holder) int { return cmp.Compare(b.GetMs(), a.GetMs()) })
}

// Requests lists the latest requests that were late or not answered: of one model, or of all where it is "", and with
// one end, or any where that is 0. At most so many are listed, the latest first. Counts of the last minute are of all
// models and ends.
func (l *Log) Requests(model string, end weftv1.RequestEnd, most int) *weftv1.ListRequestsResponse {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var found []request
	for _, of := range l.kindsLocked(end) {
		// Each ring gives up to as many as are wanted in all: the latest ones may all be in one of them.
		n := 0
		seekLocked(l, of, func(r *request) bool {
			if (model == "" || l.words.texts[r.model] == model) && (end == 0 || r.end() == end) {
				found, n = append(found, *r), n+1
			}
			return n < most
		})
	}
	slices.SortStableFunc(found, func(a, b request) int { return cmp.Compare(b.ended, a.ended) })

	out := &weftv1.ListRequestsResponse{Requests: &weftv1.RequestColumns{}}
	activity := &weftv1.Activity{}
	v := newView(l, activity, &sharedsched.State{}, l.secondOf(now), time.Second)
	v.order, v.places = nil, map[*tracked]uint32{} // only the ones that are named
	for i := range found[:min(most, len(found))] {
		c := out.GetRequests()
		v.request(c, &found[i])
		c.Episode, c.Step = append(c.Episode, l.episodes.text(found[i].episode)), append(c.Step, found[i].step)
	}
	out.Versions = activity.GetVersions()
	for _, kind := range []*remembered{&l.troubled, &l.refused} {
		n, forgotten := kind.lastMinute(now)
		out.InLastMinute += n
		out.Forgotten += forgotten
	}
	return out
}

// kindsLocked returns the rings that hold requests of an end; 0: all that were late or not answered. Answered requests,
// late ones among them, are in the ring of all requests, late ones in that of troubled ones as well.
func (l *Log) kindsLocked(end weftv1.RequestEnd) []*ring[request] {
	switch end {
	case weftv1.RequestEnd_REQUEST_END_ANSWERED:
		return []*ring[request]{&l.requests}
	case weftv1.RequestEnd_REQUEST_END_REFUSED:
		return []*ring[request]{&l.refused.ring}
	case weftv1.RequestEnd_REQUEST_END_LATE, weftv1.RequestEnd_REQUEST_END_EXPIRED,
		weftv1.RequestEnd_REQUEST_END_CANCELLED, weftv1.RequestEnd_REQUEST_END_FAILED:
		return []*ring[request]{&l.troubled.ring}
	case weftv1.RequestEnd_REQUEST_END_UNSPECIFIED:
	}
	return []*ring[request]{&l.troubled.ring, &l.refused.ring}
}
