package activity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/wire"
	"github.com/weftserve/weft/sharedsched"
)

// limits are how many batches and requests an Activity holds at most. A frame has what happened in a quarter of a
// second. The first frame of a viewer reaches back further, and may hold more.
type limits struct{ batches, requests int }

var (
	inFrame = limits{1_000, 500}
	inFirst = limits{20_000, 20_000}
)

// mostVersions is how many versions there may be for resting ones to be shown as well. Where there are more, a frame
// has only the ones that did something or have requests waiting.
const mostVersions = 256

// cursor is how far a viewer has seen: all that ended before a time, which are the batches and requests before two
// places of their rings.
type cursor struct {
	at                sharedsched.Time
	batches, requests uint64
}

// cursorAt returns the cursor that has seen all before a time, as far as it is remembered. It takes O(log n) in what is
// remembered.
func (l *Log) cursorAt(t sharedsched.Time) cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cursor{
		max(0, t),
		l.batches.since(func(b *batch) bool { return b.ended() > t }),
		l.requests.since(func(r *request) bool { return r.ended > t }),
	}
}

// cursor returns the cursor that has seen everything.
func (l *Log) cursor() cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cursor{l.now(), l.batches.added, l.requests.added}
}

// frame returns what happened between two cursors, and how things stand at the latter. The state may be a moment older.
// What was overwritten since, or is beyond the limits, is counted as left out.
func (l *Log) frame(since, until cursor, state *sharedsched.State, most limits) *weftv1.Activity {
	var gpus map[string]*weftv1.GpuActivity
	if l.GPUs != nil {
		gpus = l.GPUs()
	}
	var totals map[string]*weftv1.RequestTotals
	if l.Totals != nil {
		totals = l.Totals()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookLocked()
	a := &weftv1.Activity{
		Run: l.run, Began: timestamppb.New(l.Epoch), FromMs: ms(since.at), NowMs: ms(until.at),
	}
	second := l.secondOf(until.at)
	from := max(0, second-windowSeconds+1)
	// The latest second of the window is not over yet: rates are by the time that has passed.
	window := max(time.Millisecond, time.Duration(until.at)-time.Duration(from)*time.Second)
	a.WindowMs = ms(window)
	v := newView(l, a, state, from, window)
	a.Devices = v.devices(gpus)
	v.versions()
	a.Batches, a.BatchesLeftOut = v.batches(since.batches, until.batches, most.batches)
	a.Requests, a.RequestsLeftOut = v.requests(&l.requests, since.requests, until.requests, most.requests)
	a.Running = v.running()
	a.Totals = totals
	a.LateOrLostLastMinute = l.troubled.counts.since(v.minute) + l.refused.counts.since(v.minute)
	return a
}

// clamp limits a range of places to what the ring still has. It returns the first place, every how many places one is
// to be taken so that there are at most so many, and how many places are gone. The multiples of every are to be taken.
func clamp[T any](of *ring[T], from, to uint64, most int) (first, every uint64, gone uint32) {
	first = max(from, of.first())
	every = (to-min(first, to))/uint64(most) + 1
	return first, every, uint32(first - from)
}

// view puts one Activity together, for the versions in order; places has the index of each. It lives for one frame, and
// the log's mu is held by its goroutine but in breathe. Queues, lanes and flows are as of state, all else as of now.
type view struct {
	*Log

	out    *weftv1.Activity
	state  *sharedsched.State
	from   int64 // the first second of the window
	minute int64 // that of the last minute
	window time.Duration
	order  []*tracked // of out.Versions
	places map[*tracked]uint32
	sums   map[*tracked]*slot // over the window
	queues map[sharedsched.VersionID]*sharedsched.VersionState
	lanes  map[string]int // of devices
	lookup lookup
}

// newView chooses the versions that are shown, and their order: by model, version and device. The caller holds mu.
func newView(l *Log, out *weftv1.Activity, state *sharedsched.State, from int64, window time.Duration) *view {
	v := &view{
		Log: l, out: out, state: state, from: from, minute: l.secondOf(l.now()) - 59, window: window,
		places: map[*tracked]uint32{}, lookup: l.lookupLocked(), sums: map[*tracked]*slot{},
		queues: map[sharedsched.VersionID]*sharedsched.VersionState{}, lanes: map[string]int{},
	}
	for i := range state.Versions {
		v.queues[state.Versions[i].ID] = &state.Versions[i]
	}
	for i := range state.Devices {
		v.lanes[state.Devices[i].Name] = state.Devices[i].Lanes
	}
	all := len(l.places) <= mostVersions
	for _, t := range l.places {
		// A version that is gone is shown if it did something a while ago, as its batches are.
		if t.latest > 0 && t.latest >= from-60 || t.waiting > 0 || all && t.resident != nil {
			v.order = append(v.order, t)
		}
	}
	slices.SortFunc(v.order, func(a, b *tracked) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.version, b.version), cmp.Compare(a.device, b.device))
	})
	for i, t := range v.order {
		v.places[t] = uint32(i)
	}
	return v
}

// placeOf returns the place of a version in the order. One that was not in it is added, as entitled to nothing: a batch
// or a request refers to it, though it rested when the view was made, or was not known yet.
func (v *view) placeOf(t *tracked) uint32 {
	i, known := v.places[t]
	if !known {
		i = uint32(len(v.order))
		v.places[t] = i
		v.order = append(v.order, t)
		v.out.Versions = append(v.out.Versions, v.version(t, 0))
	}
	return i
}

// breathe lets go of the lock for a moment after so many things. What the rings refer to is looked up again then:
// versions and words may have been added meanwhile.
func (v *view) breathe(read uint64) {
	v.breatheLocked(read)
	v.lookup = v.lookupLocked()
}

// batches returns the batches from one place to below another, at most so many, evenly chosen, and how many it left
// out. Batches of versions that are forgotten are missing from both.
func (v *view) batches(from, to uint64, most int) (*weftv1.BatchColumns, uint32) {
	c := &weftv1.BatchColumns{}
	first, every, omitted := clamp(&v.Log.batches, from, to, most)
	for i := first; i < to; i++ {
		v.breathe(i)
		// It may have been overwritten while the lock was let go of.
		if i%every != 0 || i < v.Log.batches.first() {
			omitted++
			continue
		}
		b := v.Log.batches.at(i)
		of := v.lookup.version(b.of)
		if of == nil {
			continue // it is gone for long
		}
		c.Number = append(c.Number, uint32(b.number)) // it may wrap, in months
		c.Version = append(c.Version, v.placeOf(of))
		c.Lane = append(c.Lane, uint32(b.lane))
		c.StartMs = append(c.StartMs, ms(b.started))
		c.DurationMs = append(c.DurationMs, float32(ms(b.elapsed)))
		c.DeviceMs = append(c.DeviceMs, float32(ms(b.deviceTime)))
		c.ExpectedMs = append(c.ExpectedMs, float32(ms(b.estimated)))
		c.Requests = append(c.Requests, uint32(b.tasks))
		c.Rows = append(c.Rows, uint32(b.rows))
		c.Size = append(c.Size, uint32(b.padded))
		c.Reason = append(c.Reason, uint32(wire.FlushReason(b.reason)))
		// In the API 0 is no rule, and here the first one.
		c.Rule = append(c.Rule, uint32(b.rule)+1)
		c.SlackMs = append(c.SlackMs, float32(ms(b.slack)))
		c.Demanding = append(c.Demanding, uint32(b.demanding))
		c.Left = append(c.Left, uint32(b.waited))
		// 1 more than the place; 0: none was passed over.
		over := uint32(0)
		if t := v.lookup.version(b.passedOver); t != nil {
			over = v.placeOf(t) + 1
		}
		c.PassedOver = append(c.PassedOver, over)
		c.Flags = append(c.Flags, uint32(b.flags))
	}
	return c, omitted
}

// requests returns the requests of a ring from one place to below another, at most so many, evenly chosen, and how many
// it left out.
func (v *view) requests(of *ring[request], from, to uint64, most int) (*weftv1.RequestColumns, uint32) {
	c := &weftv1.RequestColumns{}
	first, every, omitted := clamp(of, from, to, most)
	for i := first; i < to; i++ {
		v.breathe(i)
		if i%every != 0 || i < of.first() {
			omitted++
			continue
		}
		v.request(c, of.at(i))
	}
	return c, omitted
}

// request appends a request to the columns.
func (v *view) request(c *weftv1.RequestColumns, r *request) {
	c.Number = append(c.Number, uint32(r.number))
	c.Id = append(c.Id, v.lookup.idOf(r.id))
	// 1 more than the place; 0: it was not routed to a version, or that was forgotten.
	version := uint32(0)
	if of := v.lookup.version(r.of); of != nil {
		version = v.placeOf(of) + 1
	}
	c.Version = append(c.Version, version)
	c.ArrivalMs = append(c.ArrivalMs, ms(r.arrived))
	c.StartMs = append(c.StartMs, ms(r.started))
	c.EndMs = append(c.EndMs, ms(r.ended))
	c.TargetMs = append(c.TargetMs, float32(ms(r.target)))
	c.Batch = append(c.Batch, uint32(r.batch))
	c.Rows = append(c.Rows, uint32(r.rows))
	c.End = append(c.End, uint32(r.end()))
	c.Reason = append(c.Reason, v.lookup.words[r.reason])
}

// running returns the batches in flight, as the scheduler's state has them. They may have ended meanwhile, and be among
// the batches, too: a viewer tells that by their numbers.
func (v *view) running() (all []*weftv1.RunningBatch) {
	for i := range v.state.Devices {
		for j := range v.state.Devices[i].Running {
			b := &v.state.Devices[i].Running[j]
			all = append(all, &weftv1.RunningBatch{
				Number: uint32(b.Number), Version: v.placeOf(v.ofLocked(b.Version, b.Device)),
				Lane: uint32(b.Lane), StartMs: ms(b.Started), ExpectedMs: ms(b.Estimated),
				Rows: uint32(b.Rows), Size: uint32(b.Padded),
			})
		}
	}
	return all
}

// round keeps three digits behind the point, and digits six: more would be noise that takes room.
func round(x float32) float32 { return float32(math.Round(float64(x)*1e3) / 1e3) }

// digits keeps six digits behind the point: shares of a device are small.
func digits(x float64) float64 { return math.Round(x*1e6) / 1e6 }
