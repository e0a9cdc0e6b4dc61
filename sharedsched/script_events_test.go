package sharedsched

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *script) printf(format string, args ...any) {
	fmt.Fprintf(s.out, "%7v  ", time.Duration(s.now))
	fmt.Fprintf(s.out, format+"\n", args...)
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
		if f, err = s.core.AddFlow(flowName, cmp.Or(kv["device"], s.cfg.Devices[0].Name), weight); err != nil {
			s.printf("error: %v", err)
			return
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

func (s *script) submit(words []string, kv map[string]string) {
	name, count := words[2], 1
	many := false
	if base, n, ok := strings.Cut(name, "*"); ok {
		name, count, many = base, s.int(n), true
	}
	for i := range count {
		task := Task{
			Rows: 1, Key: kv["key"], ShapeKey: kv["shape"], Priority: named(s, priorities, kv["prio"]),
			Alone: slices.Contains(words, "alone"), Unmeasured: slices.Contains(words, "unmeasured"),
			OpenEnded: slices.Contains(words, "open"), Identity: kv["identity"],
		}
		if w := kv["share"]; w != "" {
			task.Weight, _ = strconv.ParseFloat(w, 64)
		}
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
		s.started(lane)
	}
	return true
}

func (s *script) started(lane int) {
	b := s.running[lane]
	why := b.Reason.String()
	if s.terse {
		d := s.core.log.latest()[0]
		if why += "; " + d.Rule.String(); d.Bound != BoundNone {
			why += "; bound: " + d.Bound.String()
		}
	}
	s.printf("lane %d starts %s [%s] %d rows as %d: %s", lane, s.core.version(b.Version).name, s.spans(b), b.Rows,
		b.Padded, why)
}

// spans names the tasks of a batch; a terse script has more than four of them as "first .. last".
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
	if n := len(parts); s.terse && n > 4 {
		parts = []string{parts[0], "..", parts[n-1]}
	}
	return strings.Join(parts, " ")
}

func (s *script) settle(lane int, words []string, kv map[string]string, quiet bool) {
	b := s.running[lane]
	if b == nil {
		s.t.Fatalf("lane %d runs nothing", lane)
	}
	r := Report{Unusable: slices.Contains(words, "unusable"), OutOfMemory: slices.Contains(words, "oom")}
	if v := kv["device"]; v != "" {
		r.DeviceTime = s.duration(v)
	}
	for i := range b.Spans {
		if f := kv["fail"]; f != "" && s.names[b.Spans[i].task] == f {
			b.Spans[i].Err, b.Spans[i].Again = errors.New("failed"), slices.Contains(words, "again")
		}
	}
	s.running[lane] = nil
	ev, acts := s.core.Settle(s.now, LaneID(lane), b, r, nil)
	if !quiet && !s.terse {
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
			switch {
			case a.End != EndDone:
				s.printf("  %s %v", s.names[a.Task], a.End)
			case !s.terse:
				s.printf("  %s done: queued %v, computed %v, device %v, executions %d", s.names[a.Task], o.Queue,
					o.Compute, o.DeviceTime, o.Executions)
			case o.Executions > 1:
				s.printf("  %s done after %d executions", s.names[a.Task], o.Executions)
			}
		case VersionGone:
			for name, id := range s.ids {
				if id == a.Version {
					s.printf("  version %s is gone", name)
				}
			}
		}
	}
	s.reasons()
}

// goOn lets the lanes work until the time given.
func (s *script) goOn(until Time, quiet bool) {
	for {
		for l := range s.running {
			if s.running[l] == nil && s.next(l, true) {
				b := s.running[l]
				s.ends[l] = s.now.Add(s.speed[b.Version](b.Padded))
				if !quiet {
					s.started(l)
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
