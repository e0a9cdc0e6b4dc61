package sharedsched

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios runs the text scripts of testdata, which specify what Core does. Each script stands alone; "run" executes its
// lines one by one and prints what happened. Regenerate with -rewrite, and commit only differences that you can explain.
//
//	device NAME lanes=N                 before anything else
//	version NAME [flow=F] [weight=W] [SETTING=VALUE ...]
//	    settings: batched=no size=8 cost=100ms timeout=5ms queue=10 rows=100 allowed=1,4,8 target=50ms latency=1s
//	configure NAME SETTING=VALUE ...
//	cost NAME rows=N DURATION           teaches the cost model: three measurements
//	speed NAME base=1ms row=100us       how long executions take under "go"
//	submit NAME TASK rows=N [key=K] [limit=50ms] [target=20ms] [prio=critical_plus|sheddable|sheddable_plus] [bytes=N] [alone] [unmeasured]
//	submit NAME TASK*COUNT ...          COUNT tasks TASK1, TASK2, ...
//	cancel TASK
//	next [LANE]                         a free lane asks for a batch
//	settle [LANE] [device=2ms] [fail=TASK] [unusable]
//	wait DURATION                       time passes; limits and timeouts are looked at
//	go DURATION [quiet]                 lanes take and finish batches by themselves until then
//	served                              device time by flow
//	queues                              what waits
//	remove NAME | drain | close
//	decisions N                         the latest N decisions in words
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newScript(t)
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

type script struct {
	t       *testing.T
	cfg     Config
	core    *Core
	now     Time
	out     strings.Builder
	names   map[Handle]string
	handles map[string]Handle
	ids     map[string]VersionID
	flows   map[string]FlowID
	set     map[string]Settings
	speed   map[VersionID]func(rows int) time.Duration
	running []*Batch // by lane
	ends    []Time   // by lane, for go
	check   checker
}

func newScript(t *testing.T) *script {
	return &script{
		t: t, names: map[Handle]string{}, handles: map[string]Handle{}, ids: map[string]VersionID{}, flows: map[string]FlowID{},
		set: map[string]Settings{}, speed: map[VersionID]func(int) time.Duration{},
	}
}

func (s *script) printf(format string, args ...any) {
	fmt.Fprintf(&s.out, "%7v  ", time.Duration(s.now))
	fmt.Fprintf(&s.out, format+"\n", args...)
}

// args splits a command into its words and its key=value pairs.
func args(line string) (words []string, kv map[string]string) {
	kv = map[string]string{}
	for f := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(f, "="); ok {
			kv[k] = v
		} else {
			words = append(words, f)
		}
	}
	return words, kv
}

func (s *script) duration(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *script) int(v string) int {
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) settings(old Settings, kv map[string]string) Settings {
	for k, v := range kv {
		switch k {
		case "batched":
			old.Batched = v == "yes"
		case "size":
			old.MaxBatchSize = s.int(v)
		case "cost":
			old.MaxBatchCost = s.duration(v)
		case "timeout":
			old.BatchTimeout = s.duration(v)
		case "queue":
			old.MaxQueue = s.int(v)
		case "rows":
			old.MaxRequestRows = s.int(v)
		case "target":
			old.TargetLatency = s.duration(v)
		case "latency":
			old.MaxLatency = s.duration(v)
		case "allowed":
			old.AllowedBatchSizes = nil
			for n := range strings.SplitSeq(v, ",") {
				old.AllowedBatchSizes = append(old.AllowedBatchSizes, s.int(n))
			}
		case "flow", "weight":
		default:
			s.t.Fatalf("unknown setting %q", k)
		}
	}
	return old
}

func (s *script) step(line string) {
	words, kv := args(line)
	lane := 0
	switch words[0] {
	case "device":
		s.cfg.Devices = append(s.cfg.Devices, Device{Name: words[1], Class: "cpu", Lanes: s.int(kv["lanes"])})
		return
	case "max_queued_bytes":
		s.cfg.MaxQueuedBytes = int64(s.int(words[1]))
		return
	case "next", "settle":
		if len(words) > 1 && words[1] != "unusable" {
			lane = s.int(words[1])
		}
	}
	if s.core == nil {
		var err error
		if s.core, err = NewCore(s.cfg); err != nil {
			s.t.Fatal(err)
		}
		s.running = make([]*Batch, len(s.core.lanes))
		s.ends = make([]Time, len(s.core.lanes))
	}
	var acts []Action
	switch words[0] {
	case "version":
		s.version(words[1], kv)
	case "configure":
		s.set[words[1]] = s.settings(s.set[words[1]], kv)
		if err := s.core.Configure(s.now, s.ids[words[1]], s.set[words[1]]); err != nil {
			s.printf("error: %v", err)
		}
	case "cost":
		curve := s.core.version(s.ids[words[1]]).shape(kv["shape"], 0, &s.core.devices[0].state)
		for range 3 {
			curve.Settle(curve.Begin(s.int(kv["rows"])), s.duration(words[2]))
		}
	case "speed":
		base, row := s.duration(kv["base"]), s.duration(kv["row"])
		s.speed[s.ids[words[1]]] = func(rows int) time.Duration { return base + time.Duration(rows)*row }
	case "submit":
		s.submit(words, kv)
	case "cancel":
		ok, acts := s.core.Cancel(s.now, s.handles[words[1]], nil)
		if !ok {
			s.printf("%s cannot be cancelled any more", words[1])
		}
		s.actions(acts)
	case "next":
		s.next(lane, false)
	case "settle":
		s.settle(lane, words, kv, false)
	case "wait":
		s.now = s.now.Add(s.duration(words[1]))
		s.actions(s.core.Advance(s.now, nil))
	case "go":
		s.goOn(s.now.Add(s.duration(words[1])), slices.Contains(words, "quiet"))
	case "served":
		for i := range s.core.flows {
			s.printf("%s %v", s.core.flows[i].name, s.core.flows[i].served)
		}
	case "queues":
		for _, v := range s.core.State(s.now).Versions {
			for _, q := range v.Queues {
				s.printf("%s key=%q tasks=%d rows=%d", v.Name, q.Key, q.Tasks, q.Rows)
			}
		}
	case "remove":
		acts = s.core.RemoveVersion(s.now, s.ids[words[1]], nil)
		s.actions(acts)
	case "drain":
		s.core.Drain(s.now)
	case "close":
		s.actions(s.core.Close(s.now, nil))
	case "decisions":
		for _, d := range s.core.log.latest()[:s.int(words[1])] {
			fmt.Fprintf(&s.out, "%7v  %s %v\n", time.Duration(d.At), d.Name, d)
		}
	default:
		s.t.Fatalf("unknown command %q", words[0])
	}
	if err := s.check.invariants(s.core); err != nil {
		s.t.Fatalf("after %q: %v", line, err)
	}
}

func (s *script) version(name string, kv map[string]string) {
	set := s.settings(Settings{Batched: true, MaxBatchSize: 8, MaxQueue: 100}, kv)
	flowName, weight := name, 1.0
	if f := kv["flow"]; f != "" {
		flowName = f
	}
	if w := kv["weight"]; w != "" {
		weight, _ = strconv.ParseFloat(w, 64)
	}
	f, ok := s.flows[flowName]
	if !ok {
		var err error
		if f, err = s.core.AddFlow(flowName, s.cfg.Devices[0].Name, weight); err != nil {
			s.t.Fatal(err)
		}
		s.flows[flowName] = f
	}
	id, err := s.core.AddVersion(name, f, set)
	if err != nil {
		s.printf("error: %v", err)
		return
	}
	s.ids[name], s.set[name] = id, set
}

var priorities = map[string]Priority{"": Critical, "critical_plus": CriticalPlus, "sheddable": Sheddable, "sheddable_plus": SheddablePlus}

func (s *script) submit(words []string, kv map[string]string) {
	name, count := words[2], 1
	many := false
	if base, n, ok := strings.Cut(name, "*"); ok {
		name, count, many = base, s.int(n), true
	}
	for i := range count {
		task := Task{Rows: 1, Key: kv["key"], ShapeKey: kv["shape"], Priority: priorities[kv["prio"]], Alone: slices.Contains(words, "alone"), Unmeasured: slices.Contains(words, "unmeasured")}
		limit := Never
		if v := kv["rows"]; v != "" {
			task.Rows = s.int(v)
		}
		if v := kv["bytes"]; v != "" {
			task.Bytes = int64(s.int(v))
		}
		if v := kv["target"]; v != "" {
			task.Target = s.duration(v)
		}
		if v := kv["limit"]; v != "" {
			limit = s.now.Add(s.duration(v))
		}
		label := name
		if many {
			label = fmt.Sprint(name, i+1)
		}
		h, acts, err := s.core.Submit(s.now, s.ids[words[1]], &task, limit, nil)
		s.actions(acts)
		if err != nil {
			if r, ok := errors.AsType[*Refusal](err); ok {
				s.printf("%s refused: %v: %v; retry after %v", label, r.Reason, r, r.RetryAfter)
			} else {
				s.printf("%s refused: %v", label, err)
			}
			continue
		}
		s.names[h], s.handles[label] = label, h
	}
}

func (s *script) next(lane int, quiet bool) bool {
	if s.running[lane] != nil {
		s.t.Fatalf("lane %d is not free", lane)
	}
	b := &Batch{}
	ok, acts := s.core.Next(s.now, LaneID(lane), b, nil)
	s.actions(acts)
	if !ok {
		if !quiet {
			s.printf("lane %d: nothing to start", lane)
		}
		return false
	}
	s.running[lane] = b
	if !quiet {
		s.printf("lane %d starts %s [%s] %d rows as %d: %v", lane, s.core.version(b.Version).name, s.spans(b), b.Rows, b.Padded, b.Reason)
	}
	return true
}

func (s *script) spans(b *Batch) string {
	var parts []string
	for _, sp := range b.Spans {
		t := s.core.get(sp.task)
		part := s.names[sp.task]
		if sp.Rows != t.rows {
			part += fmt.Sprintf("(%d-%d)", sp.First, sp.First+sp.Rows-1)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func (s *script) settle(lane int, words []string, kv map[string]string, quiet bool) {
	b := s.running[lane]
	if b == nil {
		s.t.Fatalf("lane %d runs nothing", lane)
	}
	r := Report{Unusable: slices.Contains(words, "unusable")}
	if v := kv["device"]; v != "" {
		r.DeviceTime = s.duration(v)
	}
	for i := range b.Spans {
		if f := kv["fail"]; f != "" && s.names[b.Spans[i].task] == f {
			b.Spans[i].Err = errors.New("failed")
		}
	}
	s.running[lane] = nil
	ev, acts := s.core.Settle(s.now, LaneID(lane), b, r, nil)
	if !quiet {
		s.printf("lane %d ends after %v, device time %v", lane, ev.Elapsed, ev.DeviceTime)
	}
	if quiet {
		s.check.note(acts)
		return
	}
	s.actions(acts)
}

func (s *script) actions(acts []Action) {
	for _, a := range s.check.note(acts) {
		switch a.Kind {
		case TaskEnded:
			o := a.Outcome
			if a.End == EndDone {
				s.printf("  %s done: queued %v, computed %v, device %v, executions %d", s.names[a.Task], o.Queue, o.Compute, o.DeviceTime, o.Executions)
			} else {
				s.printf("  %s %v", s.names[a.Task], a.End)
			}
		case VersionGone:
			for name, id := range s.ids {
				if id == a.Version {
					s.printf("  version %s is gone", name)
				}
			}
		}
	}
}

// goOn lets the lanes work until the time given.
func (s *script) goOn(until Time, quiet bool) {
	for {
		for l := range s.running {
			if s.running[l] == nil && s.next(l, true) {
				b := s.running[l]
				s.ends[l] = s.now.Add(s.speed[b.Version](b.Padded))
				if !quiet {
					s.printf("lane %d starts %s [%s] %d rows as %d: %v", l, s.core.version(b.Version).name, s.spans(b), b.Rows, b.Padded, b.Reason)
				}
			}
		}
		at, lane := s.core.NextWake(), -1
		for l := range s.running {
			if s.running[l] != nil && s.ends[l] <= at {
				at, lane = s.ends[l], l
			}
		}
		if at > until {
			s.now = until
			return
		}
		s.now = max(s.now, at)
		if lane >= 0 {
			s.settle(lane, nil, nil, quiet)
		} else {
			s.actions(s.core.Advance(s.now, nil))
		}
	}
}
