package sharedsched

import (
	"context"
	"sync"
	"time"
)

// Scheduler is the shell around Core: one mutex, one timer, and one batch thread per lane. It turns calls into events
// for Core and Core's actions into answers. Its methods are safe for concurrent use.
type Scheduler struct {
	exec  Executor
	obs   Observer
	tele  Telemetry // may be nil
	epoch time.Time
	ops   sync.Pool // of *op
	trace *trace    // nil: none

	mu      sync.Mutex
	core    *Core                       // guarded by mu
	waiting []*op                       // guarded by mu; by task slot: who waits for the task
	gone    map[VersionID]chan struct{} // guarded by mu; closed when the version's last task has ended
	rooms   map[VersionID]*room         // guarded by mu; where callers wait for room
	// guarded by mu; closed when a draining core has no task left. Nil: not draining
	empty  chan struct{}
	timer  *time.Timer // guarded by mu
	armed  Time        // guarded by mu; when the timer fires
	closed bool        // guarded by mu
	idle   int         // guarded by mu; batch threads that wait for work
	latest Time        // guarded by mu; of the latest event
	crews  []*crew     // guarded by mu; by device, in the order in which they were added
}

// New starts a scheduler. Close ends it. The observer may be nil.
func New(cfg Config, exec Executor, obs Observer) (*Scheduler, error) {
	core, err := NewCore(cfg)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		exec: exec, obs: obs, tele: cfg.Telemetry, epoch: time.Now(), core: core,
		gone: map[VersionID]chan struct{}{}, rooms: map[VersionID]*room{}, armed: Never,
	}
	if s.trace = newTrace(&cfg); s.trace != nil {
		go s.writeTrace(cfg.Trace)
	}
	s.ops.New = func() any { return &op{done: make(chan struct{}, 1)} }
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range core.devices {
		s.enlistLocked(d.Device, d.lanes[0].id)
	}
	return s, nil
}

// AddFlow adds what fairness is owed to: one version, or all versions of a model. Its versions share weight's part of
// the named device whenever that is contended. The errors are those of EventAddFlow.
func (s *Scheduler) AddFlow(name, device string, weight float64) (FlowID, error) {
	out, err := s.tell(&Event{Kind: EventAddFlow, Name: name, Device: device, Weight: weight})
	return out.Flow, err
}

// RemoveFlow forgets a flow. Its versions must be gone, or its device.
func (s *Scheduler) RemoveFlow(f FlowID) {
	_, _ = s.tell(&Event{Kind: EventRemoveFlow, Flow: f}) // it has no error
}

// AddVersion adds a version whose tasks are charged to flow f. The name, such as "model/3", is for people. The errors
// are those of EventAddVersion.
func (s *Scheduler) AddVersion(name string, f FlowID, settings Settings) (VersionID, error) {
	out, err := s.tell(&Event{Kind: EventAddVersion, Name: name, Flow: f, Settings: &settings})
	return out.Version, err
}

// Inherit has a version begin with what is known of the costs of another on the same device, such as the version before
// it, until its own are measured. moved: it is the other one under a new id, with the same engine and the memory that
// this has taken.
func (s *Scheduler) Inherit(v, from VersionID, moved bool) {
	_, _ = s.tell(&Event{Kind: EventInherit, Version: v, From: from, Moved: moved}) // it has no error
}

// Configure changes a version's settings from the next batch on. The errors are those of EventConfigure.
func (s *Scheduler) Configure(v VersionID, settings Settings) error {
	_, err := s.tell(&Event{Kind: EventConfigure, Version: v, Settings: &settings})
	return err
}

// RemoveVersion refuses further tasks of a version with ErrRemoved and returns when its last task has ended, or with
// the context's error; the removal goes on in that case.
func (s *Scheduler) RemoveVersion(ctx context.Context, v VersionID) error {
	s.mu.Lock()
	if s.core.version(v) == nil {
		s.mu.Unlock()
		return nil
	}
	gone := s.gone[v]
	if gone == nil {
		gone = make(chan struct{})
		s.gone[v] = gone
	}
	s.mu.Unlock()
	_, _ = s.tell(&Event{Kind: EventRemoveVersion, Version: v}) // it has no error
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Expel ends the tasks of a version that have rows waiting, with ErrRemoved, and refuses further ones. It returns at
// once; batches in flight go on. RemoveVersion, which waits for these, must follow.
func (s *Scheduler) Expel(v VersionID) {
	_, _ = s.tell(&Event{Kind: EventExpel, Version: v}) // it has no error
}

// State returns a copy of what the scheduler knows.
func (s *Scheduler) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.core.State(s.nowLocked(s.now()))
	for i := range state.Versions {
		if r := s.rooms[state.Versions[i].ID]; r != nil {
			state.Versions[i].Waiting = r.waiting()
		}
	}
	return state
}

// VersionName returns the name that a version was added with, "" for one that is gone.
func (s *Scheduler) VersionName(v VersionID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.core.version(v); known != nil {
		return known.name
	}
	return ""
}

// now reads the clock.
func (s *Scheduler) now() Time { return Time(time.Since(s.epoch)) }

// nowLocked makes times that were read before the lock was taken follow each other, as Core expects.
func (s *Scheduler) nowLocked(read Time) Time {
	s.latest = max(s.latest, read)
	return s.latest
}

// tell has Core take an event and carries out what it comes to. For events that come with every request there are
// cheaper ways.
func (s *Scheduler) tell(ev *Event) (Answer, error) {
	var sc scratch
	s.mu.Lock()
	now := s.nowLocked(s.now())
	err := s.stepLocked(now, ev, &sc.Answer)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
	return sc.Answer, err
}

// stepLocked has Core take an event, and records it. Core hears of nothing in any other way.
func (s *Scheduler) stepLocked(now Time, ev *Event, out *Answer) error {
	first := len(out.Actions)
	err := s.core.Step(now, ev, out)
	if s.trace != nil {
		s.trace.recordLocked(now, ev, out, first, err)
	}
	return err
}
