package sharedsched

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/sharedsched/cost"
)

// TestOracle compares Core with the oracle decision by decision on random traces, and makes sure that it would notice
// if Core broke a rule.
func TestOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const traces = 3000
	compared := uint64(traces)
	if race.Enabled {
		compared /= 10 // one goroutine decides
	}
	for seed := range compared {
		if err := compare(randomBytes(seed), Variant{}); err != nil {
			t.Fatalf("trace %d: %v", seed, err)
		}
	}
	for name, variant := range map[string]Variant{
		"least slack": {LeastSlack: true}, "no conflict rule": {NoConflictRule: true}, "all demand": {AllDemand: true},
		"no window drop": {NoWindowDrop: true}, "no company": {NoCompany: true}, "no flood rule": {NoFloodRule: true},
	} {
		differ := 0
		for seed := uint64(0); seed < traces && differ < 5; seed++ {
			if compare(randomBytes(seed), variant) != nil {
				differ++
			}
		}
		if differ < 5 {
			t.Errorf("%s: only %d of %d traces show a difference", name, differ, traces)
		}
	}
}

// FuzzOracle lets the fuzzer look for a trace on which Core and the oracle differ.
func FuzzOracle(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := compare(data, Variant{}); err != nil {
			t.Fatal(err)
		}
	})
}

func randomBytes(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, 700)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// match is Core and the oracle going through the same events.
type match struct {
	bytes  source
	core   *Core
	oracle *oracle
	now    Time
	queues map[string]*oracleQueue
	known  map[*shape]*int // what is known of the memory of each shape
	who    []string        // identities that tasks name
	limits bool            // tasks have them
	tasks  map[Handle]*oracleTask
	order  []Handle
	lanes  []*inFlight
}

type inFlight struct {
	batch Batch
	queue *oracleQueue
	spans []oracleSpan
	class class
	est   time.Duration
}

// compare decodes a trace from bytes and returns the first difference.
func compare(data []byte, v Variant) error {
	v.NoAdmission = true // the oracle admits the tasks that Core admits
	v.NoAwait = true     // it does not measure when they come
	m := &match{
		bytes: source(data), queues: map[string]*oracleQueue{},
		known: map[*shape]*int{}, tasks: map[Handle]*oracleTask{},
	}
	if err := m.setUp(v); err != nil {
		return err
	}
	// So short a trace stays within one step of the background guard.
	for n := 0; len(m.bytes) > 0 && m.now < Time(240*time.Millisecond); n++ {
		if err := m.step(); err != nil {
			return fmt.Errorf("event %d at %v: %w", n, time.Duration(m.now), err)
		}
	}
	return nil
}

// source yields bytes, and zeros when it has no more.
type source []byte

func (s *source) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func (m *match) setUp(variant Variant) error {
	m.lanes = make([]*inFlight, 1+m.bytes.next(2))
	m.limits = m.bytes.next(2) == 0
	m.who = [...][]string{{""}, {"", "p", "q"}, {"p", "q", "r", "s"}}[m.bytes.next(3)]
	var err error
	variant.NoDeviceCap = true // the oracle has none
	m.core, err = NewCore(Config{
		Devices: []Device{{Name: "d", Lanes: len(m.lanes)}}, Variant: variant,
	})
	if err != nil {
		return err
	}
	m.oracle = &oracle{
		lanes:  len(m.lanes),
		total:  int64(4+8*m.bytes.next(2)) << 30,
		beyond: func(f *oracleFlow) bool { return m.core.flows[f.id].beyond },
		low:    func(f *oracleFlow) time.Duration { return m.core.flows[f.id].recent.targets.low() },
		kept: func() time.Duration {
			if b := &m.core.devices[0].cap; b.keeps {
				return b.most
			}
			return 0
		},
		last: func() time.Duration {
			if len(m.lanes) == 1 {
				return 0
			}
			if l := cmp.Or(m.lanes[0], m.lanes[1]); l != nil {
				return l.est
			}
			return 0
		},
	}
	for i := range 2 + m.bytes.next(3) {
		weight := 1 << m.bytes.next(3)
		m.oracle.flows = append(m.oracle.flows, &oracleFlow{id: i, weight: int64(weight)})
		f, err := m.core.AddFlow("f", "d", float64(weight))
		if err != nil {
			return err
		}
		// As if it had asked for that much already.
		m.core.flows[f].recent.asked = float64(m.bytes.next(3)) * float64(time.Second)
		for range 1 + m.bytes.next(2) {
			s := m.settings()
			if _, err := m.core.AddVersion("v", f, s); err != nil {
				return err
			}
			m.oracle.versions = append(m.oracle.versions, oracleVersion{Settings: s})
		}
	}
	return nil
}

func (m *match) settings() Settings {
	s := Settings{
		Batched: m.bytes.next(8) > 0, MaxBatchSize: 1 + m.bytes.next(16), MaxQueue: 2 + m.bytes.next(30),
		MaxBatchCost: time.Duration(m.bytes.next(3)) * 7 * time.Millisecond,
	}
	if m.bytes.next(4) == 0 {
		s.BatchTimeout = time.Duration(1+m.bytes.next(10)) * time.Millisecond
	}
	if m.bytes.next(3) == 0 {
		s.AllowedBatchSizes = []int{2, 3, 8, 16}
	}
	s.RowMemory = int64(m.bytes.next(4)) * 64 << 20
	if m.bytes.next(2) == 0 {
		s.TargetLatency = time.Duration(1+m.bytes.next(60)) * time.Millisecond
	}
	return s
}

// queue returns the oracle's queue for a version and key. A key's costs are taught when it is first seen.
func (m *match) queue(v VersionID, key, who string) *oracleQueue {
	name := fmt.Sprint(v, who, key)
	if q := m.queues[name]; q != nil {
		return q
	}
	f, err := m.core.flowFor(m.core.version(v), &Task{Identity: who, Weight: float64(1 + len(who)%2*len(m.who)%3)})
	if err != nil {
		panic(err)
	}
	if int(f.id) == len(m.oracle.flows) {
		m.oracle.flows = append(m.oracle.flows, &oracleFlow{id: int(f.id), weight: int64(f.weight)})
	}
	q := &oracleQueue{
		flow: m.oracle.flows[f.id], version: &m.oracle.versions[v], memory: &m.oracle.memory,
		shape: m.core.shapeOf(v, key), heldTo: Never,
	}
	m.queues[name] = q
	m.oracle.queues = append(m.oracle.queues, q)
	if q.cap = m.known[q.shape]; q.cap != nil {
		return q
	}
	q.cap = new(int)
	m.known[q.shape] = q.cap
	base := time.Duration(1+m.bytes.next(40)) * 200 * time.Microsecond
	row := time.Duration(m.bytes.next(20)) * 50 * time.Microsecond
	for _, rows := range []int{1, 4, 16, 64} {
		for range cost.MinSamples {
			q.shape.Settle(q.shape.Begin(rows), base+row*time.Duration(rows))
		}
	}
	return q
}

func (m *match) step() error {
	m.now += Time(1 + m.bytes.next(16)*m.bytes.next(16)*19997)
	lane := m.bytes.next(len(m.lanes))
	switch op := m.bytes.next(32); {
	case op < 16:
		return m.submit()
	case op < 28 && m.lanes[lane] == nil:
		return m.next(LaneID(lane))
	case op < 28:
		m.settle(LaneID(lane))
	case op < 30 && len(m.order) > 0:
		m.cancel(m.order[m.bytes.next(len(m.order))])
	case op == 30:
		free := int64(m.bytes.next(48)) * 64 << 20
		m.core.Observe(m.now, "d", cost.Sample{MemoryFree: free, MemoryTotal: m.oracle.total})
		m.oracle.setFree(m.now, free)
	case op == 31 && m.bytes.next(8) == 0:
		m.core.Drain(m.now)
		m.oracle.draining = true
		m.oracle.look(m.now, slices.Clone(m.oracle.queues)...)
	default:
		return m.advance()
	}
	return nil
}

func (m *match) advance() error { return m.ended(m.oracle.advance(m.now), m.core.Advance(m.now, nil)) }

// ended compares the tasks that ended without being executed.
func (m *match) ended(want []Handle, acts []Action) error {
	var got []Handle
	for _, a := range acts {
		if a.Kind == TaskEnded && a.End != EndDone {
			got = append(got, a.Task)
		}
	}
	want = slices.DeleteFunc(want, m.isRunning) // they end with their running rows
	if !slices.Equal(got, want) {
		return fmt.Errorf("Core gave up %x, the oracle %x", got, want)
	}
	return nil
}

func (m *match) isRunning(h Handle) bool {
	return slices.ContainsFunc(m.lanes, func(l *inFlight) bool {
		return l != nil && slices.ContainsFunc(l.batch.Spans, func(s Span) bool { return s.task == h })
	})
}

func (m *match) submit() error {
	// Expired tasks leave first: with them the newcomer might make a batch full, which the oracle would see and Core,
	// which looks at the end of an event, would not.
	if err := m.advance(); err != nil {
		return err
	}
	v := VersionID(m.bytes.next(len(m.oracle.versions)))
	key, who := string(rune('a'+m.bytes.next(3))), m.who[m.bytes.next(len(m.who))]
	q := m.queue(v, key, who)
	task := Task{
		Key: key, ShapeKey: key, Identity: who, Weight: m.core.flows[q.flow.id].weight,
		Rows: 1 + m.bytes.next(4)*m.bytes.next(8), Target: time.Duration(m.bytes.next(60)) * time.Millisecond,
		Alone: m.bytes.next(16) == 0, Unmeasured: true,
	}
	limit := Never
	if m.limits {
		limit = m.now + Time(1+m.bytes.next(60))*Time(time.Millisecond)
	}
	task.Priority, task.OpenEnded = Priority(m.bytes.next(4)), m.bytes.next(3) == 0
	cv, f := m.core.version(v), m.core.flows[q.flow.id]
	queued := f.tenancy(cv).queued[task.Priority.class()]
	h, acts, err := m.core.Submit(m.now, v, &task, limit, nil)
	if _, refused := errors.AsType[*Refusal](err); refused && task.Priority != Sheddable &&
		cv.queues[address{f, key}] != nil {
		q.noRoom()
		m.oracle.hear(m.now, q, &oracleTask{rank: ranks[task.Priority], alone: task.Alone, limit: limit}, task.Target)
	}
	var gone []Handle
	if victim := m.oracle.room(q, task.Priority, queued); victim != nil && err == nil {
		gone = append(gone, victim.handle)
		q.tasks = slices.DeleteFunc(q.tasks, func(t *oracleTask) bool { return t == victim })
		if victim.rank != backgroundRank {
			q.noRoom()
		}
	}
	if err == nil {
		t := &oracleTask{
			queue: q, handle: h, rows: task.Rows, rank: ranks[task.Priority], arrival: m.now, limit: limit,
			seq: len(m.order), alone: task.Alone, openEnded: task.OpenEnded,
		}
		m.tasks[h] = t
		m.order = append(m.order, h)
		m.oracle.arrive(m.now, q, t, task.Target)
	}
	if err := m.ended(gone, acts); err != nil {
		return err
	}
	return m.advance() // Core notices tasks that joined behind others at the next event
}

func (m *match) cancel(h Handle) {
	ok, _ := m.core.Cancel(m.now, h, nil)
	for _, q := range m.oracle.queues {
		n := len(q.tasks)
		if q.tasks = slices.DeleteFunc(q.tasks,
			func(t *oracleTask) bool { return ok && t.handle == h }); len(q.tasks) < n {
			m.oracle.look(m.now, q)
		}
	}
}

func (m *match) next(lane LaneID) error {
	l := &inFlight{}
	ok, acts := m.core.Next(m.now, lane, &l.batch, nil)
	gone, q, k, spans := m.oracle.next(m.now)
	if err := m.ended(gone, acts); err != nil {
		return err
	}
	var got []oracleSpan
	rows := 0
	if ok {
		for i := range l.batch.Spans {
			s := &l.batch.Spans[i]
			got = append(got, oracleSpan{s.task, s.First, s.Rows})
			rows += s.Rows
		}
	}
	if !slices.Equal(got, spans) {
		return fmt.Errorf("Core starts %x, the oracle %x", got, spans)
	}
	if !ok {
		return nil
	}
	padded := q.padded(rows)
	if l.batch.Alone {
		padded = rows
	}
	if l.batch.Padded != padded {
		return fmt.Errorf("Core pads %d rows to %d, the oracle to %d", rows, l.batch.Padded, padded)
	}
	l.queue, l.class, l.est, l.spans = q, k, q.shape.Estimate(padded).Cost, spans
	m.parts(spans, l.est, func(q *oracleQueue, part time.Duration) { m.oracle.charge(q, k, part) })
	q.served = true
	m.oracle.look(m.now, append(m.oracle.joined, q)...)
	m.oracle.joined = nil
	m.lanes[lane] = l
	return nil
}

// settle ends a batch, after half to twice the time expected. Nothing is learnt from it: costs stay as they are.
func (m *match) settle(lane LaneID) {
	l := m.lanes[lane]
	m.lanes[lane] = nil
	used := l.est/2 + l.est/10*time.Duration(m.bytes.next(16))
	r := Report{DeviceTime: used, Unusable: m.bytes.next(8) == 0, OutOfMemory: m.bytes.next(16) == 0}
	m.core.Settle(m.now, lane, &l.batch, r, nil)
	var charged []time.Duration
	m.parts(l.spans, l.est, func(_ *oracleQueue, part time.Duration) { charged = append(charged, part) })
	i := 0
	m.parts(l.spans, used, func(q *oracleQueue, part time.Duration) {
		m.oracle.correct(q, l.class, part-charged[i])
		i++
	})
	switch {
	case r.OutOfMemory:
		m.oracle.ranOut(m.now, l.queue, l.batch.Padded)
	case !r.Unusable:
		m.oracle.ranWell(m.now, l.queue, l.batch.Padded)
	}
}
