package top

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// demoWindow is of what the rates and shares of a made-up server are, in milliseconds.
const demoWindow = 10_000

// demo is a made-up server: the same each time. It keeps the time of a clock, or none.
type demo struct {
	mu    sync.Mutex
	sim   *simulation // guarded by mu
	began time.Time
	tick  func(context.Context) bool // waits for the next update; false ends
}

// newDemo returns a server that has run for a minute.
func newDemo(began time.Time) *demo {
	d := &demo{sim: newSimulation(7), began: began, tick: func(ctx context.Context) bool {
		select {
		case <-time.After(every * time.Millisecond):
			return true
		case <-ctx.Done():
			return false
		}
	}}
	d.sim.advance(minute + demoWindow)
	return d
}

func (*demo) name() string  { return "demo (made up)" }
func (*demo) flags() string { return "" }

func (d *demo) watch(ctx context.Context, once bool, give func(*weftv1.Activity) bool) error {
	from := 0.0
	for {
		d.mu.Lock()
		a := d.activity(from)
		from = d.sim.now
		d.mu.Unlock()
		if !give(a) || once || !d.tick(ctx) {
			return nil
		}
		d.mu.Lock()
		d.sim.advance(every)
		d.mu.Unlock()
	}
}

func (d *demo) list(_ context.Context, model string) (*weftv1.ListRequestsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late(model), nil
}

// late lists as a server does. The caller holds mu.
func (d *demo) late(model string) *weftv1.ListRequestsResponse {
	s := d.sim
	r := &weftv1.ListRequestsResponse{Requests: &weftv1.RequestColumns{}, Versions: d.versions()}
	for _, q := range slices.Backward(s.ended) {
		if !q.wrong(s.now) {
			continue
		}
		r.InLastMinute++
		if (model == "" || s.flows[q.flow].model == model) && len(r.GetRequests().GetNumber()) < listMost {
			appendRequest(r.GetRequests(), q)
		}
	}
	return r
}

// wrong reports whether a request was late or lost in the minute until now.
func (q *simRequest) wrong(now float64) bool {
	return q.how != weftv1.RequestEnd_REQUEST_END_ANSWERED && q.end >= now-minute && q.end <= now
}

func appendRequest(c *weftv1.RequestColumns, q *simRequest) {
	c.Number = append(c.Number, q.number)
	c.Id = append(c.Id, q.id)
	c.Version = append(c.Version, uint32(q.flow+1))
	c.ArrivalMs = append(c.ArrivalMs, q.arrival)
	c.StartMs = append(c.StartMs, q.started)
	c.EndMs = append(c.EndMs, q.end)
	c.TargetMs = append(c.TargetMs, float32(q.target))
	c.Batch = append(c.Batch, q.batch)
	c.Rows = append(c.Rows, 1)
	c.End = append(c.End, uint32(q.how))
	c.Reason = append(c.Reason, q.reason)
}

// activity is what happened since from. The caller holds mu.
func (d *demo) activity(from float64) *weftv1.Activity {
	s := d.sim
	a := &weftv1.Activity{
		Run: "demo", Began: timestamppb.New(d.began), FromMs: from, NowMs: s.now, WindowMs: demoWindow,
		Versions: d.versions(), Batches: &weftv1.BatchColumns{}, Requests: &weftv1.RequestColumns{},
		Totals: map[string]*weftv1.RequestTotals{},
	}
	busy, all := 0.0, 0.0
	c := a.GetBatches()
	for _, b := range s.batches {
		busy += max(0, min(b.end, s.now)-max(b.start, s.now-demoWindow))
		if b.end > s.now {
			a.Running = append(a.Running, &weftv1.RunningBatch{
				Number: b.number, Version: uint32(b.flow), StartMs: b.start, ExpectedMs: b.end - b.start,
				Rows: uint32(b.rows), Size: uint32(b.size),
			})
		} else if b.end > from {
			c.Number = append(c.Number, b.number)
			c.Version = append(c.Version, uint32(b.flow))
			c.Lane = append(c.Lane, 0)
			c.StartMs = append(c.StartMs, b.start)
			c.DurationMs = append(c.DurationMs, float32(b.end-b.start))
			c.Rows = append(c.Rows, uint32(b.rows))
			c.Size = append(c.Size, uint32(b.size))
			c.Flags = append(c.Flags, b.flags)
		}
	}
	for _, q := range s.ended {
		if q.end > from && q.end <= s.now {
			appendRequest(a.GetRequests(), q)
		}
		if q.wrong(s.now) {
			a.LateOrLostLastMinute++
			count := a.GetVersions()[q.flow].GetLastMinute()
			if q.how == weftv1.RequestEnd_REQUEST_END_LATE {
				count.Late++
			} else {
				count.Lost++
			}
		}
	}
	for _, f := range s.flows {
		all += f.busy
		t := a.GetTotals()[f.model]
		if t == nil {
			t = &weftv1.RequestTotals{}
			a.Totals[f.model] = t
		}
		t.Answered += f.answered
		t.Refused += f.refused
		t.InFlight += float64(len(f.queue))
		t.Offered += f.answered + f.refused + float64(len(f.queue))
	}
	a.Devices = []*weftv1.DeviceActivity{{
		Name: "cuda:0", Lanes: 1, BusySeconds: all / 1000, BusyShare: busy / demoWindow, LagMs: 14, LagBoundMs: 30,
	}}
	return a
}

// versions are as a server shows them. The caller holds mu.
func (d *demo) versions() []*weftv1.VersionActivity {
	s := d.sim
	since := s.now - demoWindow
	var all []*weftv1.VersionActivity
	weights := 0.0
	for _, f := range s.flows {
		if !f.background {
			weights += f.weight
		}
	}
	for i, f := range s.flows {
		v := &weftv1.VersionActivity{
			Model: f.model, Version: f.version, Device: "cuda:0", Slot: f.slot, Weight: f.weight, TargetMs: f.target,
			EntitledShare: f.weight / weights, Waiting: uint32(len(f.queue)), LastMinute: &weftv1.LastMinute{},
			Totals: &weftv1.VersionTotals{
				Batches: f.batches, Rows: f.rows, PaddedRows: f.padded, BusySeconds: f.busy / 1000,
				Answered: f.answered, Late: f.late, Flushes: map[string]float64{"full": f.full, "device_idle": f.batches - f.full},
			},
		}
		if f.refused > 0 {
			v.Totals.Lost = map[string]float64{"QUEUE_FULL": f.refused}
		}
		batches, rows, busy := 0.0, 0.0, 0.0
		for _, b := range s.batches {
			if b.flow == i && b.end > since {
				busy += min(b.end, s.now) - max(b.start, since)
				batches++
				rows += float64(b.rows)
			}
		}
		v.Share, v.BatchesPerSecond = busy/demoWindow, batches*1000/demoWindow
		if v.RowsPerBatch = 0; batches > 0 {
			v.RowsPerBatch = rows / batches
		}
		if f.background {
			v.BackgroundShare, v.EntitledShare = v.GetShare(), 0
		}
		var times []float64
		for _, q := range s.ended {
			if q.flow == i && q.end > since && q.end <= s.now && q.reason == "" {
				times = append(times, q.end-q.arrival)
			}
		}
		v.RequestsPerSecond = float64(len(times)) * 1000 / demoWindow
		if slices.Sort(times); len(times) > 0 {
			v.P50Ms, v.P99Ms = times[len(times)/2], times[len(times)*99/100]
		}
		all = append(all, v)
	}
	return all
}

func (d *demo) explain(_ context.Context, name string) (*weftv1.Explanation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sim
	for _, q := range slices.Backward(s.ended) {
		if q.id == name || "#"+strconv.FormatUint(uint64(q.number), 10) == name {
			return d.story(q), nil
		}
	}
	return nil, errors.New("no request " + name + " is remembered")
}

// story explains a request. The caller holds mu.
func (d *demo) story(q *simRequest) *weftv1.Explanation {
	s, f := d.sim, d.sim.flows[q.flow]
	e := &weftv1.Explanation{
		Number: q.number, Id: q.id, Model: f.model, Version: f.version, End: q.how, Reason: q.reason, TargetMs: q.target,
		Arrived: timestamppb.New(d.began.Add(time.Duration(q.arrival * 1e6))), EndedMs: q.end - q.arrival,
	}
	say := func(format string, args ...any) { e.Story = append(e.Story, fmt.Sprintf(format, args...)) }
	say("It came for %s v%d, wanted within %.0f ms.", f.model, f.version, q.target)
	if q.reason != "" {
		say("It was refused at once (%s): %d requests waited already.", q.reason, f.room)
		return e
	}
	e.StartedMs, e.ComputedMs = q.started-q.arrival, q.end-q.arrival
	held := map[int]*weftv1.Holder{}
	for _, b := range s.batches {
		if ms := min(b.end, q.started) - max(b.start, q.arrival); ms > 0 {
			if held[b.flow] == nil {
				held[b.flow] = &weftv1.Holder{Model: s.flows[b.flow].model, Version: s.flows[b.flow].version}
			}
			held[b.flow].Batches++
			held[b.flow].Ms += ms
		}
	}
	for _, h := range held {
		e.Holders = append(e.Holders, h)
	}
	slices.SortFunc(e.GetHolders(), func(a, b *weftv1.Holder) int { return int(math.Copysign(1, b.GetMs()-a.GetMs())) })
	var who []string
	for _, h := range e.GetHolders() {
		label := labelOf(h.GetModel(), h.GetVersion())
		who = append(who, fmt.Sprintf("%d of %s for %.0f ms", h.GetBatches(), label, h.GetMs()))
	}
	if say("It waited %.1f ms for cuda:0.", e.GetStartedMs()); len(who) > 0 {
		say("Meanwhile the device ran batches: %s.", strings.Join(who, ", "))
	}
	say("Batch #%d with it took %.1f ms.", q.batch, q.end-q.started)
	if late := q.end - q.arrival - q.target; late > 0 {
		say("The answer was there after %.1f ms: %.1f ms late.", e.GetEndedMs(), late)
	} else {
		say("The answer was there after %.1f ms: in time.", e.GetEndedMs())
	}
	return e
}
