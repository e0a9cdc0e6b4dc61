package sharedsched

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
)

// FuzzCore feeds Core random events, decoded from bytes, and checks every invariant after each one. At the end every
// task must have ended exactly once, and the charges must sum to the busy time. The same bytes again must lead to the
// same decisions.
func FuzzCore(f *testing.F) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(7, seed))
		data := make([]byte, 1500)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, b := newTrial(t, data).run(), newTrial(t, data).run(); a != b {
			t.Fatal("the same events led to other decisions the second time")
		}
	})
}

// trial is a Core, the events that it is fed, and the checks of its answers.
type trial struct {
	t        *testing.T
	bytes    source
	core     *Core
	now      Time
	versions []VersionID
	handles  []Handle  // in order of admission
	batches  []*Batch  // by lane
	devices  []*device // that there ever were
	timed    bool      // tasks have limits
	who      []string  // identities that tasks name
	held     bool      // partial batches are held for a timeout
	reports  bool      // device times are reported: then shares do not sum to the busy time
	ended    time.Duration
	seen     trialRecord
	check    checker
	lag      lagWatch
	gone     map[VersionID]bool
}

func newTrial(t *testing.T, data []byte) *trial {
	x := &trial{
		t: t, bytes: source(data[:min(len(data), 4000)]), gone: map[VersionID]bool{}, seen: newTrialRecord(),
	}
	one := Device{Name: "one", Lanes: 2, Handover: x.ms(3)}
	if x.bytes.next(3) == 0 {
		one.Handover = 0 // each lane has a processor of its own
	}
	c, err := NewCore(Config{
		Devices:        []Device{one, {Name: "two", Lanes: 1}},
		MaxQueuedBytes: 5000,
	})
	if err != nil {
		t.Fatal(err)
	}
	x.core = c
	x.timed, x.held, x.reports = x.bytes.next(2) == 0, x.bytes.next(2) == 0, x.bytes.next(2) == 0
	x.who = [...][]string{{""}, {"", "p", "q"}, {"p", "q", "r", "s", "t"}}[x.bytes.next(3)]
	x.batches = make([]*Batch, len(c.lanes))
	x.devices = slices.Clone(c.devices)
	for _, dev := range []string{"one", "one", "two"} {
		x.addFlow(dev)
	}
	return x
}

// addFlow adds a flow with two versions.
func (x *trial) addFlow(dev string) {
	flow, err := x.core.AddFlow("flow on "+dev, dev, float64(x.bytes.next(4))+0.5)
	if err != nil {
		x.t.Fatal(err)
	}
	for range 2 {
		v, err := x.core.AddVersion("version", flow, x.settings())
		if err != nil {
			x.t.Fatal(err)
		}
		x.versions = append(x.versions, v)
		x.teach(v)
	}
}

// teach gives a version measured costs of one of its shapes, or of none.
func (x *trial) teach(v VersionID) {
	known := x.bytes.next(4)
	if known == 3 {
		return
	}
	curve := x.core.shapeOf(v, string(rune('a'+known)))
	base, row := x.ms(8)+time.Millisecond, x.ms(8)/4
	for _, rows := range []int{1, 4, 16} {
		for range cost.MinSamples {
			curve.Settle(curve.Begin(rows), base+row*time.Duration(rows))
		}
	}
}

func (x *trial) settings() Settings {
	s := Settings{
		Batched: x.bytes.next(4) > 0, MaxBatchSize: 1 + x.bytes.next(16), MaxBatchCost: x.ms(50),
		MaxQueue: 1 + x.bytes.next(30), MaxRequestRows: 60, WaitWhenFull: x.bytes.next(2) == 0,
		TargetLatency: x.ms(3) * 10,
	}
	if x.timed {
		s.MaxLatency = x.ms(3) * 40
	}
	if x.held && x.bytes.next(2) == 0 {
		s.BatchTimeout = time.Millisecond + x.ms(10)
	}
	if x.bytes.next(2) == 0 {
		s.RowMemory = int64(x.bytes.next(4)) * 64 << 20
	}
	if x.bytes.next(3) == 0 {
		s.AllowedBatchSizes = []int{1, 4, 16}
	}
	return s
}

// ms returns less than n milliseconds.
func (x *trial) ms(n int) time.Duration { return time.Duration(x.bytes.next(n)) * time.Millisecond }

// run returns a digest of all decisions.
func (x *trial) run() uint64 {
	for len(x.bytes) > 0 {
		x.step()
		x.invariants()
	}
	x.core.Drain(x.now)
	for range 100_000 {
		for lane := range x.batches {
			x.next(lane)
			x.now += Time(time.Millisecond)
			x.settle(lane)
		}
		if x.core.Live() == 0 {
			break
		}
	}
	x.invariants()
	if err := x.seen.over(); err != nil {
		x.t.Fatal(err)
	}
	if shares, busy := x.core.busyShares(x.devices, x.ended); shares != busy && !x.reports {
		x.t.Fatalf("batches were charged %v, the devices were busy for %v", shares, busy)
	}
	h := fnv.New64a()
	for _, d := range x.core.log.latest() {
		fmt.Fprint(h, d)
	}
	return h.Sum64()
}

func (x *trial) invariants() {
	if err := errors.Join(x.check.invariants(x.core), x.lag.check(x.core)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *trial) note(acts []Action) {
	for _, a := range x.check.note(acts) {
		switch a.Kind {
		case TaskEnded:
			if err := x.seen.end(a.Task, a.End); err != nil {
				x.t.Fatal(err)
			}
		case VersionGone:
			if x.gone[a.Version] {
				x.t.Fatalf("version %d is gone twice", a.Version)
			}
			x.gone[a.Version] = true
		}
	}
}

func (x *trial) step() {
	op, arg := x.bytes.next(20), x.bytes.next(256)
	lane := arg % len(x.batches)
	v := x.versions[arg%len(x.versions)]
	switch op {
	case 0, 1, 2, 3:
		x.submit(v)
	case 4, 5, 6, 7:
		x.next(lane)
	case 8, 9, 10, 11, 12:
		x.settle(lane)
	case 13, 14:
		x.now += Time(arg*arg) * 997 // up to 65 ms, mostly less than 20
		if arg == 255 {
			x.now += Time(x.bytes.next(2)) * Time(time.Minute)
		}
		if x.bytes.next(2) == 0 { // else the timer is late
			x.note(x.core.Advance(x.now, nil))
		}
	case 15:
		if len(x.handles) > 0 {
			_, acts := x.core.Cancel(x.now, x.handles[arg%len(x.handles)], nil)
			x.note(acts)
		}
	case 16:
		settings := x.settings()
		if err, bad := x.core.Configure(x.now, v, settings),
			settings.validate() != nil; (err != nil) != (bad || x.core.version(v) == nil) {
			x.t.Fatalf("Configure(%+v): %v", settings, err)
		}
	case 17:
		x.core.Observe(x.now, "one", cost.Sample{
			Clock: 300 * arg % 2000, MaxClock: 1800, Idle: arg%16 == 0, Throttled: arg%8 == 1, CoTenant: arg % 4 * 100,
			Expired:    arg%8 == 2,
			MemoryFree: int64(x.bytes.next(48)) * 64 << 20, MemoryTotal: int64(arg%3) << 32,
		})
	case 18:
		x.core.Inherit(v, x.versions[x.bytes.next(len(x.versions))], arg%2 == 0)
		x.note(x.core.Advance(x.now, nil))
	case 19:
		switch {
		case arg > 250:
			x.note(x.core.RemoveVersion(x.now, v, nil))
		case arg == 250:
			x.core.Drain(x.now)
		case arg == 249:
			x.note(x.core.Close(x.now, nil))
		case arg == 248:
			x.core.Hurry(x.now)
		case arg > 239:
			x.expel(v)
		case arg > 219:
			x.changeDevices([]string{"one", "two"}[arg%2])
		}
	}
}

// changeDevices removes or adds a device. Its versions go with it, as if each were expelled, and nothing else ends.
func (x *trial) changeDevices(name string) {
	if x.core.device(name) == nil {
		if _, err := x.core.AddDevice(Device{Name: name, Lanes: 1 + x.bytes.next(3), Handover: x.ms(3)}); err != nil {
			x.t.Fatal(err)
		}
		for len(x.batches) < len(x.core.lanes) {
			x.batches = append(x.batches, nil)
		}
		x.devices = append(x.devices, x.core.device(name))
		x.addFlow(name)
		return
	}
	on := map[VersionID][]Action{}
	for _, v := range x.versions {
		if cv := x.core.version(v); cv != nil && cv.flow.device.Name == name && !cv.flow.device.removed {
			on[v] = nil
		}
	}
	acts, err := x.core.RemoveDevice(x.now, name, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.note(acts)
	for _, a := range acts {
		if _, ok := on[a.Version]; !ok {
			x.t.Fatalf("device %s was removed, and this came of it: %+v", name, a)
		}
		on[a.Version] = append(on[a.Version], a)
	}
	if x.bytes.next(2) == 0 { // their ids name other flows then, while batches of theirs may be running
		for id, f := range x.core.flows {
			if f != nil && f.device.removed && f.identity == "" {
				x.core.RemoveFlow(FlowID(id))
			}
		}
	}
	for v, acts := range on {
		if err := x.seen.expel(x.core, v, acts); err != nil {
			x.t.Fatal(err)
		}
	}
}

// expel takes a version out. Its waiting tasks end at once, unless rows of them are running; nothing else ends.
func (x *trial) expel(v VersionID) {
	acts := x.core.Expel(x.now, v, nil)
	x.note(acts)
	if err := x.seen.expel(x.core, v, acts); err != nil {
		x.t.Fatal(err)
	}
}

func (x *trial) submit(v VersionID) {
	b := x.bytes.next(256)
	task := Task{
		Rows: 1 + x.bytes.next(7)*x.bytes.next(7)*x.bytes.next(2), Key: string(rune('a' + b%3)),
		ShapeKey: string(rune('a' + b%2)),
		Bytes:    int64(x.bytes.next(256)), Target: x.ms(256), Alone: b%16 == 0, Unmeasured: b%32 == 0,
	}
	limit := Never
	if x.timed && x.bytes.next(2) == 0 {
		limit = x.now + Time(x.ms(256))
	}
	task.Priority = Priority(b % 4)
	task.Identity = x.who[x.bytes.next(len(x.who))]
	task.Weight = map[string]float64{"q": 3, "r": 0.25}[task.Identity]
	queued := func() (queued, most int) {
		cv := x.core.version(v)
		if cv == nil {
			return 0, 0
		}
		if f := x.core.flowOf(cv, task.Identity); f != nil {
			queued = f.tenancy(cv).queued[task.Priority.class()]
		}
		return queued, cv.settings.MaxQueue
	}
	before, _ := queued()
	h, acts, err := x.core.Submit(x.now, v, &task, limit, nil)
	x.note(acts)
	if err != nil {
		return
	}
	if n, most := queued(); n > max(before, most) || x.core.queuedBytes > x.core.maxQueuedBytes {
		x.t.Fatalf("%d tasks wait after %d, %d may; %d bytes do", n, before, most, x.core.queuedBytes)
	}
	if err := x.seen.admit(x.core, x.now, h, v, &task); err != nil {
		x.t.Fatal(err)
	}
	x.handles = append(x.handles, h)
}

func (x *trial) next(lane int) {
	if x.batches[lane] != nil || x.core.lanes[lane] == nil {
		return
	}
	b := &Batch{}
	had, asked := true, false
	if x.bytes.next(2) == 0 { // else the first steps of EventNext may make work
		x.note(x.core.Advance(x.now, nil))
		// A lane that is kept for short batches may be kept no longer; the end of those in flight would tell, too.
		had, asked = x.core.HasWork(x.now, LaneID(lane)) || x.core.keepsLast(x.core.lanes[lane].device), true
	}
	ok, acts := x.core.Next(x.now, LaneID(lane), b, nil)
	x.note(acts)
	l := x.core.lanes[lane]
	if !ok {
		if d := l.device; d.turn > x.now && (d.until > 0 || d.gathers != nil || d.inFlight > 0 && d.shared()) {
			if asked && had && len(acts) == 0 && d.until == 0 && d.gathers == nil {
				x.t.Fatal("a lane would be woken for nothing")
			}
			return
		}
		if err := x.core.checkIdle(x.now, l.device); err != nil {
			x.t.Fatal(err)
		}
		return
	}
	if !had {
		x.t.Fatalf("a batch was started where there was no work: %v", x.core.log.latest()[0])
	}
	if err := x.seen.batch(x.core, x.now, l, b); err != nil {
		x.t.Fatal(err)
	}
	if l.class == foreground {
		for _, p := range lagParts(x.core, b) {
			x.lag.started(x.core, p.flow.id, p.of(b, l.est.Cost))
		}
	}
	x.batches[lane] = b
}

func (x *trial) settle(lane int) {
	b := x.batches[lane]
	if b == nil {
		return
	}
	x.batches[lane] = nil
	if fail := x.bytes.next(256); fail%8 == 1 {
		s := &b.Spans[fail%len(b.Spans)]
		s.Err, s.Again = errors.New("failed"), fail%16 == 1
	}
	r := Report{Unusable: x.bytes.next(8) == 1}
	r.OutOfMemory = x.bytes.next(16) == 1
	if x.reports && x.bytes.next(2) == 0 {
		r.DeviceTime = 1 + x.ms(100)
	}
	l := x.core.lanes[lane]
	parts := lagParts(x.core, b)
	ev, acts := x.core.Settle(x.now, LaneID(lane), b, r, nil)
	x.ended += ev.DeviceTime
	for _, p := range parts {
		if l.class == foreground && x.core.flows[p.flow.id] == p.flow {
			x.lag.settled(x.core, p.flow.id, p.of(b, l.est.Cost), p.of(b, ev.DeviceTime))
		}
	}
	if i := slices.IndexFunc(acts,
		func(a Action) bool { return a.Kind == TaskEnded && a.End == EndDone && a.Outcome.Executions < 1 }); i >= 0 {
		x.t.Fatalf("task %x is done after no execution", acts[i].Task)
	}
	x.note(acts)
}
