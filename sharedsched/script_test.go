package sharedsched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/weftserve/weft/sharedsched/cost"
)

// TestScenarios runs the text scripts of testdata, which specify Core's behaviour. Each script stands alone; "run"
// executes its lines one by one and prints what happened. Regenerate with -rewrite, and commit only differences that
// you can explain.
//
//	terse                               print no tasks that are done; print why a queue was served, a task dropped
//	new                                 begins again: no device, no version, time zero
//	device NAME lanes=N                 these two before anything else
//	max_queued_bytes N
//	version NAME [flow=F] [weight=W] [device=D] [SETTING=VALUE ...]
//	    settings: batched=no size=8 cost=100ms timeout=5ms queue=10 rows=100 allowed=1,4,8 target=50ms latency=1s
//	              row_memory=MIB
//	configure NAME SETTING=VALUE ...
//	cost NAME rows=N [shape=S] DURATION teaches the cost model: three measurements
//	inherit NAME FROM [moved]           NAME begins with the known costs of FROM
//	observe DEVICE [clock=MHZ max=MHZ] [cotenant=PERMILLE] [free=MIB total=MIB] [idle] [throttled] [expired]
//	estimate NAME rows=N [shape=S]      expected time of an execution, and the source of the estimate
//	speed NAME base=1ms row=100us       how long executions take under "go"
//	submit NAME TASK rows=N [key=K] [shape=S] [limit=50ms] [target=20ms] [prio=critical_plus|...]
//	       [bytes=N] [alone] [unmeasured] [open]  open: the limit is not its own
//	       [identity=WHO] [share=WEIGHT]  who is charged, and the weight of that flow
//	submit NAME TASK*COUNT ...          COUNT tasks TASK1, TASK2, ...
//	cancel TASK
//	next [LANE]                         a free lane asks for a batch
//	settle [LANE] [device=2ms] [fail=TASK] [unusable] [oom]
//	wait DURATION                       time passes; limits and timeouts are looked at
//	go DURATION [quiet]                 lanes take and finish batches by themselves until then
//	served                              device time by flow
//	queues                              waiting tasks by queue
//	stages                              waiting tasks by queue, and whether it is resting, pending or demanding
//	memory                              known device memory, and the queues whose batches it bounds
//	cap                                 the most device time of one batch for the sake of waiting tasks
//	exposed                             the target that cannot be kept beside a row of another flow
//	load                                what the devices have to do
//	remove NAME | drain | hurry | close
//	add DEVICE lanes=N [handover=1ms]   a device comes
//	lose DEVICE                         a device is removed
//	forget FLOW                         a flow is removed
//	lanes                               the lanes of each device, free or running
//	decisions N                         the latest N decisions in words
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			for line := range strings.Lines(d.Input) {
				if line = strings.TrimSpace(line); line != "" {
					s.step(line)
				}
			}
			out := s.out.String()
			s.out.Reset()
			return out
		})
	})
}

// script is a Core that is driven by the lines of a script.
type script struct {
	t       *testing.T
	out     *strings.Builder
	terse   bool
	cfg     Config
	core    *Core
	now     Time
	names   map[Handle]string
	handles map[string]Handle
	ids     map[string]VersionID
	flows   map[string]FlowID
	set     map[string]Settings
	speed   map[VersionID]func(rows int) time.Duration
	running []*Batch // by lane
	ends    []Time   // by lane, for go
	told    uint64   // decisions that were looked at
	check   checker
}

func newScript() *script {
	return &script{
		out: &strings.Builder{}, names: map[Handle]string{}, handles: map[string]Handle{}, ids: map[string]VersionID{},
		flows: map[string]FlowID{},
		set:   map[string]Settings{}, speed: map[VersionID]func(int) time.Duration{},
	}
}

// step executes a line and checks the invariants.
func (s *script) step(line string) {
	words, kv := args(line)
	switch words[0] {
	case "terse":
		s.terse = true
	case "new":
		fresh := newScript()
		fresh.t, fresh.out, fresh.terse = s.t, s.out, s.terse
		*s = *fresh
	case "device":
		s.cfg.Devices = append(s.cfg.Devices, s.device(words[1], kv))
	case "max_queued_bytes":
		s.cfg.MaxQueuedBytes = int64(s.int(words[1]))
	default:
		if s.core == nil {
			s.begin()
		}
		s.event(words, kv)
		if err := s.check.invariants(s.core); err != nil {
			s.t.Fatalf("after %q: %v", line, err)
		}
	}
}

func (s *script) device(name string, kv map[string]string) Device {
	d := Device{Name: name, Class: "cpu", Lanes: s.int(kv["lanes"])}
	if kv["handover"] != "" {
		d.Handover = s.duration(kv["handover"])
	}
	return d
}

func (s *script) begin() {
	var err error
	if s.core, err = NewCore(s.cfg); err != nil {
		s.t.Fatal(err)
	}
	s.running = make([]*Batch, len(s.core.lanes))
	s.ends = make([]Time, len(s.core.lanes))
}

func (s *script) event(words []string, kv map[string]string) {
	lane, name := 0, ""
	var id VersionID
	if len(words) > 1 {
		name = words[1]
		id = s.ids[name]
		if words[0] == "next" || words[0] == "settle" && name != "unusable" && name != "again" && name != "oom" {
			lane = s.int(name)
		}
	}
	switch words[0] {
	case "version":
		s.version(name, kv)
	case "configure":
		s.set[name] = s.settings(s.set[name], kv)
		if err := s.core.Configure(s.now, id, s.set[name]); err != nil {
			s.printf("error: %v", err)
		}
	case "cost":
		curve := s.shape(id, kv)
		for range 3 {
			curve.Settle(curve.Begin(s.int(kv["rows"])), s.duration(words[2]))
		}
	case "inherit":
		s.core.Inherit(id, s.ids[words[2]], slices.Contains(words, "moved"))
	case "observe":
		s.core.Observe(s.now, name, s.sample(words, kv))
	case "speed":
		base, row := s.duration(kv["base"]), s.duration(kv["row"])
		s.speed[id] = func(rows int) time.Duration { return base + time.Duration(rows)*row }
	case "submit":
		s.submit(words, kv)
	case "cancel":
		ok, acts := s.core.Cancel(s.now, s.handles[name], nil)
		if !ok {
			s.printf("%s cannot be cancelled any more", name)
		}
		s.actions(acts)
	case "next":
		s.next(lane, false)
	case "settle":
		s.settle(lane, words, kv, false)
	case "wait":
		s.now = s.now.Add(s.duration(name))
		s.actions(s.core.Advance(s.now, nil))
	case "go":
		s.goOn(s.now.Add(s.duration(name)), slices.Contains(words, "quiet"))
	case "add":
		first, err := s.core.AddDevice(s.device(name, kv))
		if err != nil {
			s.printf("error: %v", err)
			return
		}
		s.printf("%s has the lanes from %d on", name, first)
		for len(s.running) < len(s.core.lanes) {
			s.running, s.ends = append(s.running, nil), append(s.ends, 0)
		}
	case "lose":
		acts, err := s.core.RemoveDevice(s.now, name, nil)
		if err != nil {
			s.printf("error: %v", err)
		}
		s.actions(acts)
	case "forget":
		s.core.RemoveFlow(s.flows[name])
		delete(s.flows, name)
	case "remove":
		s.actions(s.core.RemoveVersion(s.now, id, nil))
	case "drain":
		s.core.Drain(s.now)
	case "hurry":
		s.core.Hurry(s.now)
	case "close":
		s.actions(s.core.Close(s.now, nil))
	default:
		s.show(words, kv)
	}
}

// shape returns a shape of a version.
func (s *script) shape(id VersionID, kv map[string]string) *shape {
	return s.core.shapeOf(id, kv["shape"])
}

// show prints a part of the state.
func (s *script) show(words []string, kv map[string]string) {
	state := s.core.State(s.now)
	switch words[0] {
	case "estimate":
		e := s.shape(s.ids[words[1]], kv).Estimate(s.int(kv["rows"]))
		s.printf("%s: %d rows take %v, hardly more than %v (%v)", words[1], e.Rows, e.Cost, e.High, e.Source)
	case "served":
		for _, f := range s.core.flows {
			if f != nil {
				s.printf("%s %v", f.name, f.served)
			}
		}
	case "lanes":
		for i, l := range s.core.lanes {
			switch {
			case l == nil:
				s.printf("lane %d is gone", i)
			case l.running:
				s.printf("lane %d of %s runs a batch; removed: %v", i, l.device.Name, l.device.removed)
			default:
				s.printf("lane %d of %s is free", i, l.device.Name)
			}
		}
	case "queues":
		for _, v := range state.Versions {
			for _, q := range v.Queues {
				whose := ""
				if q.Identity != "" {
					whose = " identity=" + q.Identity
				}
				s.printf("%s key=%q%s tasks=%d rows=%d", v.Name, q.Key, whose, q.Tasks, q.Rows)
			}
		}
	case "stages":
		for _, v := range state.Versions {
			for _, q := range v.Queues {
				if q.Stage != resting.String() {
					s.printf("%s %d rows %v: the next batch takes %v, slack %v", v.Name, q.Rows, q.Stage, q.NextCost,
						q.Slack)
				} else if q.Tasks > 0 {
					s.printf("%s %d rows resting", v.Name, q.Rows)
				}
			}
		}
	case "memory":
		for i := range state.Devices {
			s.printf("%s: %d of %d MiB free", state.Devices[i].Name, state.Devices[i].MemoryFree>>20,
				state.Devices[i].MemoryTotal>>20)
		}
		for _, v := range state.Versions {
			for _, q := range v.Queues {
				switch {
				case q.OutOfMemory > 0:
					s.printf("%s %q: at most %d rows, for %v at least", v.Name, q.Key, q.MemoryRows, q.OutOfMemory)
				case q.MemoryRows > 0:
					s.printf("%s %q: at most %d rows", v.Name, q.Key, q.MemoryRows)
				}
			}
		}
	case "cap":
		for i := range state.Devices {
			if d := &state.Devices[i]; d.Cap > 0 {
				s.printf("%s: a batch may take %v", d.Name, d.Cap)
			} else {
				s.printf("%s: no cap", d.Name)
			}
		}
	case "exposed":
		for i := range state.Devices {
			d := &state.Devices[i]
			if e := &d.Exposed; e.Flow != "" {
				s.printf("%s: %v of %s cannot be kept beside %s, a row of which takes %v", d.Name, e.Target, e.Flow, e.Beside,
					e.Batch)
			} else {
				s.printf("%s: no target is exposed", d.Name)
			}
		}
	case "load":
		for _, d := range s.core.Load(s.now) {
			s.printf("%s: busy %v, work %v, full batch %v", d.Name, d.Busy, d.Work, d.Full)
		}
	case "decisions":
		for _, d := range state.Decisions[:s.int(words[1])] {
			fmt.Fprintf(s.out, "%7v  %s %v\n", time.Duration(d.At), d.Name, d)
		}
	default:
		s.t.Fatalf("unknown command %q", words[0])
	}
}

// reasons prints why tasks were dropped since the last time.
func (s *script) reasons() {
	latest := s.core.log.latest()
	n := min(int(s.core.log.n-s.told), len(latest))
	s.told = s.core.log.n
	for i := n - 1; i >= 0 && s.terse; i-- {
		if d := &latest[i]; d.Kind == Dropped && d.Drop != DropExpired {
			s.printf("    %s %v", d.Name, *d)
		}
	}
}

func (s *script) sample(words []string, kv map[string]string) cost.Sample {
	sample := cost.Sample{
		Idle: slices.Contains(words, "idle"), Throttled: slices.Contains(words, "throttled"),
		Expired: slices.Contains(words, "expired"),
	}
	for name, field := range map[string]*int{
		"clock": &sample.Clock, "max": &sample.MaxClock,
		"cotenant": &sample.CoTenant,
	} {
		if v, ok := kv[name]; ok {
			*field = s.int(v)
		}
	}
	for name, field := range map[string]*int64{"free": &sample.MemoryFree, "total": &sample.MemoryTotal} {
		if v, ok := kv[name]; ok {
			*field = int64(s.int(v)) << 20
		}
	}
	return sample
}
