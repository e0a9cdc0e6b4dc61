package top

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

const (
	demoDevice = "cuda:0"
	// demoRan is how long a made-up server has run when it is first seen. A server's first answer has a bounded number
	// of requests: in a longer time there would be more.
	demoRan = 30 * time.Second
	// spread bounds by how much versions that always have work fall behind each other, in device time over weight.
	spread = 60 * time.Millisecond
)

// demo is a made-up server: a device with one lane, and callers who come at random, the same each time. There are
// robots that ask two versions of a policy, a walking policy, a ranker with large batches, and a shadow. What happens
// goes into a server's own log of activity, which answers in the place of a server.
type demo struct {
	log    *activity.Log
	models *catalog.Snapshot
	flows  []*demoFlow // by their numbers in the scheduler's state

	// mu guards the state of the demo and of its flows: the log may ask for it from any goroutine.
	mu      sync.Mutex
	random  *rand.Rand       // guarded by mu, as all below
	now     sharedsched.Time // until when everything is played
	running *demoBatch       // nil: the device is free
	batches uint64
	numbers uint64 // of requests
}

// demoFlow is a version and its callers.
type demoFlow struct {
	catalog.Version
	slot       string
	rate       float64       // requests a second
	burst      float64       // requests that come together, on average
	base, each time.Duration // what a batch takes, and each row more
	most, room int           // rows of a batch, requests that may wait
	background bool

	// The state of the flow, guarded by the demo's mu.
	next              sharedsched.Time // when its callers come again
	queue             []*predict.Event
	used              time.Duration // device time over weight
	answered, refused float64
}

// demoBatch is the batch that runs, with the requests in it. Its length is drawn when it starts, so that its end is
// known.
type demoBatch struct {
	sharedsched.BatchEvent
	end      sharedsched.Time
	requests []*predict.Event
}

// newDemo returns the server before its first request. Its past is played when the log first asks for the state. The
// seed of its random numbers is fixed, so that pictures can be compared. The queue of the ranker holds fewer requests
// than the largest burst, so that the table has lost requests to show.
func newDemo() *demo {
	const ms, us = time.Millisecond, time.Microsecond
	version := func(model string, number int64, weight float64, target time.Duration) catalog.Version {
		return catalog.Version{
			Model: model, Number: number, State: catalog.Ready, Device: demoDevice, Weight: weight, TargetLatency: target,
		}
	}
	pick := demoFlow{burst: 3, base: 4 * ms, each: 550 * us, most: 16, room: 64}
	prod, canary, shadow := pick, pick, pick
	prod.Version, prod.slot, prod.rate = version("pick", 5, 1, 60*ms), "prod", 250
	canary.Version, canary.slot, canary.rate = version("pick", 6, 1, 60*ms), "canary", 60
	shadow.Version, shadow.slot, shadow.rate = version("pick", 7, 1, 60*ms), "shadow", 25
	shadow.burst, shadow.background = 2, true
	d := &demo{log: activity.New(), random: rand.New(rand.NewPCG(7, 7)), flows: []*demoFlow{
		&prod, &canary, &shadow,
		{
			Version: version("rank", 3, 1, 300*ms), slot: "prod", rate: 50, burst: 16, base: 6 * ms, each: 1300 * us, most: 32,
			room: 29,
		},
		{
			Version: version("walk", 8, 2, 20*ms), slot: "prod", rate: 220, burst: 2, base: 800 * us, each: 120 * us, most: 16,
			room: 64,
		},
	}}
	// The log finds a version by its number in the scheduler, which is its place in flows.
	models := map[string]*catalog.Model{"pick": {Name: "pick"}, "rank": {Name: "rank"}, "walk": {Name: "walk"}}
	for i, f := range d.flows {
		f.Scheduler, f.Replicas = int32(i), []catalog.Replica{{Device: demoDevice, Scheduler: int32(i)}}
		models[f.Model].Versions = append(models[f.Model].Versions, &f.Version)
	}
	d.models = &catalog.Snapshot{Revision: 1, Models: catalog.ByName(slices.Collect(maps.Values(models))...)}
	d.log.Watch(activity.Config{
		Epoch: time.Now().Add(-demoRan), Models: func() *catalog.Snapshot { return d.models }, State: d.state,
		VersionName: func(id sharedsched.VersionID) string {
			return fmt.Sprintf("%s/%d", d.flows[id].Model, d.flows[id].Number)
		},
		Slot:   func(_ *catalog.Model, v *catalog.Version) string { return d.flows[v.Scheduler].slot },
		Totals: d.totals,
	})
	return d
}

func (*demo) name() string  { return "demo (made up)" }
func (*demo) flags() string { return "" }

// watch gives the log's frames, as a server sends them, until ctx ends or give says false.
func (d *demo) watch(ctx context.Context, once bool, give func(*weftv1.Activity) bool) error {
	if !d.log.Follow(ctx, demoRan, nil, func(f *activity.Frame) bool {
		f.Run = "demo"
		return give(f.Activity) && !once
	}) {
		return errors.New("too many watch the made-up server")
	}
	return nil
}

// list and explain ask the log what a server would ask its own.
func (d *demo) list(_ context.Context, model string) (*weftv1.ListRequestsResponse, error) {
	return d.log.Requests(model, 0, listMost), nil
}

func (d *demo) explain(_ context.Context, name string) (*weftv1.Explanation, error) {
	if e := d.log.Explain(name); e != nil {
		return e, nil
	}
	return nil, errors.New("no request " + name + " is remembered")
}

// state plays until now, and returns the scheduler's state as a server would report it. The log calls it before each
// update, so that the demo advances only while somebody watches.
func (d *demo) state() sharedsched.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.play(sharedsched.Time(time.Since(d.log.Epoch)))
	device := sharedsched.DeviceState{
		Device: sharedsched.Device{Name: demoDevice, Lanes: 1}, LagBound: spread / 2, Lag: 14e6,
	}
	if d.running != nil {
		device.Running = []sharedsched.BatchEvent{d.running.BatchEvent}
	}
	s := sharedsched.State{Now: d.now, Devices: []sharedsched.DeviceState{device}}
	for i, f := range d.flows {
		s.Flows = append(s.Flows, sharedsched.FlowState{ID: sharedsched.FlowID(i), Weight: f.Weight})
		v := sharedsched.VersionState{ID: sharedsched.VersionID(i), Flow: sharedsched.FlowID(i), Queued: len(f.queue)}
		// The scheduler counts work that nobody waits for separately.
		if f.background {
			v.Queued, v.Background = 0, v.Queued
		}
		s.Versions = append(s.Versions, v)
	}
	return s
}

// totals counts requests by model. Those in the batch that runs are in flight, as those in the queue are.
func (d *demo) totals() map[string]*weftv1.RequestTotals {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]*weftv1.RequestTotals{}
	for i, f := range d.flows {
		t := all[f.Model]
		if t == nil {
			t = &weftv1.RequestTotals{}
			all[f.Model] = t
		}
		t.Answered += f.answered
		t.Refused += f.refused
		inFlight := float64(len(f.queue))
		if d.running != nil && int(d.running.Version) == i {
			inFlight += float64(d.running.Rows)
		}
		t.InFlight += inFlight
		// What was offered is what ended and what has not, as in a server.
		t.Offered += f.answered + f.refused + inFlight
	}
	return all
}

// play carries out all events until a time, in their order: the end of a batch comes before an arrival at the same
// moment. The caller holds mu.
func (d *demo) play(until sharedsched.Time) {
	for {
		if d.running == nil {
			d.start()
		}
		f := slices.MinFunc(d.flows, func(a, b *demoFlow) int { return int(a.next - b.next) })
		switch {
		// The end of a batch goes before an arrival of the same time: the arrival then finds the device free.
		case d.running != nil && d.running.end <= min(f.next, until):
			d.now = d.running.end
			d.finish()
		case f.next <= until:
			d.now = f.next
			d.arrive(f)
		default:
			d.now = until
			return
		}
	}
}

// arrive adds a burst of requests to the queue of a flow, and refuses the ones that find it full. Bursts have any size
// from 1 to twice the average less 1. The time to the next one is exponential, and keeps the rate whatever the bursts.
func (d *demo) arrive(f *demoFlow) {
	for range 1 + d.random.IntN(int(2*f.burst)-1) {
		d.numbers++
		q := &predict.Event{
			Number: d.numbers, ID: fmt.Sprintf("robot-%d/step-%d", d.random.IntN(40)+1, d.numbers), Model: f.Model,
			Version: f.Number, Arrived: d.time(d.now), Ending: predict.Answered, Execution: predict.Execution{Rows: 1},
		}
		if !f.background { // nobody waits for a shadow
			q.Target = f.TargetLatency
		}
		q.Execution.Outcome.Device = demoDevice
		if len(f.queue) < f.room {
			f.queue = append(f.queue, q)
			continue
		}
		q.Ended, q.Ending, q.Reason = q.Arrived, predict.Refused, "QUEUE_FULL"
		f.refused++
		d.log.RequestDone(context.Background(), q)
	}
	f.next = d.now.Add(time.Duration(d.random.ExpFloat64() * f.burst / f.rate * float64(time.Second)))
}

// start runs a batch of the flow whose used is least. A background flow gets a batch only if no other flow waits. It
// does nothing where nobody waits. The caller holds mu.
func (d *demo) start() {
	var f *demoFlow
	for _, o := range d.flows {
		if len(o.queue) > 0 && (f == nil || f.background && !o.background ||
			f.background == o.background && o.used < f.used) {
			f = o
		}
	}
	if f == nil {
		return
	}
	n := min(len(f.queue), f.most)
	// Batches are padded to a power of two, as the sizes of a model usually are.
	size := 1
	for size < n {
		size *= 2
	}
	d.batches++
	takes := f.base + time.Duration(size)*f.each
	b := &demoBatch{requests: slices.Clone(f.queue[:n]), BatchEvent: sharedsched.BatchEvent{
		BatchStart: sharedsched.BatchStart{
			Number: d.batches, Started: d.now, Rule: sharedsched.PickIdle, PassedOver: sharedsched.NoVersion,
			Background: f.background,
		},
		Version: sharedsched.VersionID(f.Scheduler), Device: demoDevice, Tasks: n, Rows: n, Padded: size,
		Reason: sharedsched.FlushDeviceIdle, Estimated: takes,
		// An execution takes up to a tenth more or less than expected.
		Elapsed: time.Duration(float64(takes) * (0.9 + 0.2*d.random.Float64())),
	}}
	if n == f.most {
		b.Reason = sharedsched.FlushFull
	}
	// There is one lane, so that the batch has the whole device while it runs.
	b.DeviceTime, b.end = b.Elapsed, d.now.Add(b.Elapsed)
	f.queue = slices.Delete(f.queue, 0, n)
	least := f.used // who had nothing to do does not save up
	for _, o := range d.flows {
		if o != f && len(o.queue) > 0 {
			least = min(least, o.used)
		}
	}
	f.used = max(f.used, least) + time.Duration(float64(b.Elapsed)/f.Weight)
	// A flow that is behind by more than spread moves up, or it would hold the device for long once it has work.
	for _, o := range d.flows {
		o.used = max(o.used, f.used-spread)
	}
	d.running = b
}

// finish ends the batch that runs, and answers its requests. Late ones are counted before the log has the batch, which
// it copies. The caller holds mu.
func (d *demo) finish() {
	b := d.running
	d.running = nil
	for _, q := range b.requests {
		q.Ended = d.time(b.end)
		// Requests of the shadow have no target, and are never late.
		if q.Target > 0 && q.Ended.Sub(q.Arrived) > q.Target {
			b.Missed++
		}
	}
	d.log.BatchDone(b.BatchEvent)
	for _, q := range b.requests {
		q.Execution.Outcome = sharedsched.Outcome{
			Queue: d.time(b.Started).Sub(q.Arrived), Compute: b.Elapsed, DeviceTime: b.Elapsed / time.Duration(b.Rows),
			Device: demoDevice, Executions: 1, Batch: b.Number, Ended: b.end,
		}
		d.flows[b.Version].answered++
		d.log.RequestDone(context.Background(), q)
	}
}

// time returns the system's time at a time of the demo's scheduler.
func (d *demo) time(t sharedsched.Time) time.Time { return d.log.Epoch.Add(time.Duration(t)) }
