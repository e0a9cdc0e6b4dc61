package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

var errOutOfMemory = errors.New("out of memory")

// corePolicy lets the server's scheduler decide: one flow and one version per model.
type corePolicy struct {
	env      *Env
	options  CoreOptions
	core     *sharedsched.Core
	offset   time.Duration // from the run's time to the core's: the time that warming up took
	versions []sharedsched.VersionID
	keys     []string
	requests []*Request   // by the slot of their handle
	lanes    []*coreBatch // by lane
	out      sharedsched.Answer
	task     sharedsched.Task
}

// coreBatch is a batch in both worlds.
type coreBatch struct {
	sim  Batch
	core sharedsched.Batch
}

func newCorePolicy(env *Env, o CoreOptions) *corePolicy {
	p := &corePolicy{env: env, options: o}
	var cfg sharedsched.Config // as the server has it by default
	if o.Config != nil {
		o.Config(&cfg)
	}
	cfg.Devices = []sharedsched.Device{{Name: "device", Class: "device", Lanes: env.Lanes, Handover: o.Handover}}
	var err error
	p.core, err = sharedsched.NewCore(cfg)
	must(err)
	for range env.Lanes {
		p.lanes = append(p.lanes, &coreBatch{})
	}
	p.keys = []string{""}
	for i := range env.Models {
		m := &env.Models[i]
		for k := len(p.keys); k < m.Keys; k++ {
			p.keys = append(p.keys, strconv.Itoa(k))
		}
		must(p.step(0, &sharedsched.Event{
			Kind: sharedsched.EventAddFlow, Name: m.Name, Device: "device", Weight: cmp.Or(m.Weight, 1),
		}))
		s := coreSettings(m)
		if o.Settings != nil {
			o.Settings(m, &s)
		}
		must(p.step(0, &sharedsched.Event{
			Kind: sharedsched.EventAddVersion, Name: m.Name, Flow: p.out.Flow, Settings: &s,
		}))
		id := p.out.Version
		p.versions = append(p.versions, id)
		if !m.Cold {
			p.warmUp(i)
		}
		if before := slices.IndexFunc(env.Models[:i],
			func(other Model) bool { return other.Name == m.Inherits }); m.Inherits != "" && before >= 0 {
			must(p.step(0, &sharedsched.Event{Kind: sharedsched.EventInherit, Version: id, From: p.versions[before]}))
		}
	}
	p.offset += time.Second // until the first request nothing of that counts as recent any more
	return p
}

// step passes an event to the core at a time of its own; the result is in p.out.
func (p *corePolicy) step(at Time, ev *sharedsched.Event) error {
	p.out.Actions = p.out.Actions[:0]
	return p.core.Step(at, ev, &p.out)
}

// decide passes an event of the run to the core, and gives up the requests whose tasks it ended in its queues.
func (p *corePolicy) decide(now Time, ev *sharedsched.Event) error {
	at := now.Add(p.offset)
	err := p.step(at, ev)
	for i := range p.out.Actions {
		a := &p.out.Actions[i]
		if a.Kind == sharedsched.TaskEnded && a.End != sharedsched.EndDone && a.End != sharedsched.EndFailed {
			p.env.Drop(now, p.requests[slotOf(a.Task)], Dropped)
		}
	}
	if p.options.Decided != nil {
		p.options.Decided(p.core, at)
	}
	return err
}

func (p *corePolicy) Arrive(now Time, r *Request) {
	if p.Wake() <= now { // as the scheduler's timer would have done
		must(p.decide(now, &sharedsched.Event{Kind: sharedsched.EventAdvance}))
	}
	m := &p.env.Models[r.Model]
	p.task = sharedsched.Task{
		Rows: r.Rows, Key: p.keys[r.Key], ShapeKey: p.keys[r.Key], Target: r.Deadline.Sub(r.Arrival),
		Priority: r.Priority,
	}
	if r.Identity > 0 {
		p.task.Identity = strconv.Itoa(r.Identity)
	}
	if m.Target > 0 {
		p.task.Target = min(m.Target, p.task.Target)
	}
	if err := p.decide(now, &sharedsched.Event{
		Kind: sharedsched.EventSubmit, Version: p.versions[r.Model], Task: &p.task, Limit: r.Deadline.Add(p.offset),
	}); err != nil {
		p.env.Drop(now, r, Refused)
		return
	}
	slot := slotOf(p.out.Task)
	for slot >= len(p.requests) {
		p.requests = append(p.requests, nil)
	}
	p.requests[slot] = r
}

func (p *corePolicy) Next(now Time, lane int) *Batch {
	b := p.lanes[lane]
	must(p.decide(now, &sharedsched.Event{
		Kind: sharedsched.EventNext, Lane: sharedsched.LaneID(lane), Batch: &b.core,
	}))
	if !p.out.OK {
		return nil
	}
	b.sim = Batch{Requests: b.sim.Requests[:0], Rows: b.core.Rows, Size: b.core.Padded}
	for i := range b.core.Spans {
		b.sim.Requests = append(b.sim.Requests, p.requests[slotOf(b.core.Spans[i].Task())])
	}
	b.sim.Model = b.sim.Requests[0].Model
	return &b.sim
}

func (p *corePolicy) Done(now Time, b *Batch, took time.Duration) {
	batch := &p.lanes[b.Lane].core
	for i, r := range b.Requests {
		if r.failed {
			batch.Spans[i].Err = errOutOfMemory
		}
	}
	report := sharedsched.Report{
		DeviceTime: took, Unusable: b.OutOfMemory, OutOfMemory: b.OutOfMemory && !p.options.Forgetful,
	}
	must(p.decide(now, &sharedsched.Event{
		Kind: sharedsched.EventSettle, Lane: sharedsched.LaneID(b.Lane), Batch: batch, Report: &report,
	}))
	b.Estimate = p.out.Batch.Estimated
}

// Observe passes a sample of the device's telemetry to the core.
func (p *corePolicy) Observe(now Time, s cost.Sample) {
	must(p.decide(now, &sharedsched.Event{Kind: sharedsched.EventObserve, Device: "device", Sample: &s}))
}

func (p *corePolicy) Wake() Time {
	if wake := p.core.NextWake(); wake != Never {
		return wake - Time(p.offset)
	}
	return Never
}

// slotOf returns the place of a task, which is small and used again.
func slotOf(h sharedsched.Handle) int { return int(uint32(h)) }

// must panics on a fault of the experiment itself, such as a negative weight: no run with it means anything.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
}
