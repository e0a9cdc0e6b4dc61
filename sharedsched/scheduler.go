package sharedsched

import (
	"context"
	"sync"
	"time"
)

// Scheduler is the shell around Core: one mutex, one timer, and one batch thread per lane. It turns calls into events for Core
// and Core's actions into answers. Its methods are safe for concurrent use.
type Scheduler struct {
	exec  Executor
	obs   Observer
	tele  Telemetry // may be nil
	epoch time.Time
	ops   sync.Pool // of *op
	done  sync.WaitGroup

	mu      sync.Mutex
	core    *Core                       // guarded by mu
	trace   *trace                      // guarded by mu; nil: none
	waiting []*op                       // guarded by mu; by task slot: who waits for the task
	gone    map[VersionID]chan struct{} // guarded by mu; closed when the version's last task has ended
	rooms   map[VersionID]*room         // guarded by mu; where callers wait for room
	empty   chan struct{}               // guarded by mu; closed when a draining core has no task left. Nil: not draining
	timer   *time.Timer                 // guarded by mu
	armed   Time                        // guarded by mu; when the timer fires
	closed  bool                        // guarded by mu
	idle    int                         // guarded by mu; batch threads that wait for work
	latest  Time                        // guarded by mu; of the latest event
	samples []uint64                    // guarded by mu; by device: the number of the telemetry sample that core knows

	threads []*batchThread
}

// New starts a scheduler. Close ends it. The observer may be nil.
func New(cfg Config, exec Executor, obs Observer) (*Scheduler, error) {
	core, err := NewCore(cfg)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		exec: exec, obs: obs, tele: cfg.Telemetry, epoch: time.Now(), core: core,
		gone: map[VersionID]chan struct{}{}, rooms: map[VersionID]*room{}, armed: Never, samples: make([]uint64, len(cfg.Devices)),
	}
	s.trace = newTrace(cfg.Trace)
	s.trace.config(&cfg)
	s.ops.New = func() any { return &op{done: make(chan struct{}, 1)} }
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	s.timer.Stop()
	for i := range core.lanes {
		s.threads = append(s.threads, &batchThread{
			lane: LaneID(i), device: cfg.Devices[core.lanes[i].device].Name, wake: make(chan struct{}, 1),
		})
	}
	for _, t := range s.threads {
		s.done.Go(func() { s.run(t) })
	}
	return s, nil
}

// AddFlow adds what fairness is owed to: one version, or all versions of a model. Its versions share weight's part of the named
// device whenever that is contended.
func (s *Scheduler) AddFlow(name, device string, weight float64) (FlowID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.core.AddFlow(name, device, weight)
	s.trace.addFlow(name, device, weight, id, err)
	return id, err
}

// RemoveFlow forgets a flow. Its versions must be gone.
func (s *Scheduler) RemoveFlow(f FlowID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.RemoveFlow(f)
	s.trace.removeFlow(f)
}

// AddVersion adds a version whose tasks are charged to flow f. The name, such as "model/3", is for people.
func (s *Scheduler) AddVersion(name string, f FlowID, settings Settings) (VersionID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.core.AddVersion(name, f, settings)
	s.trace.addVersion(name, f, &settings, id, err)
	return id, err
}

// Inherit has a version begin with what is known of the costs of another on the same device, such as the version before it,
// until its own are measured. moved: it is the other one under a new id, with the same engine and the memory that this has taken.
func (s *Scheduler) Inherit(v, from VersionID, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Inherit(v, from, moved)
	s.trace.inherit(v, from, moved)
}

// Configure changes a version's settings from the next batch on.
func (s *Scheduler) Configure(v VersionID, settings Settings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked(s.now())
	err := s.core.Configure(now, v, settings)
	s.trace.configure(now, v, &settings, err)
	s.afterEventLocked(now, nil)
	return err
}

// RemoveVersion refuses further tasks of a version with ErrRemoved and returns when its last task has ended, or with the
// context's error; the removal goes on in that case.
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
	var sc scratch
	now := s.nowLocked(s.now())
	sc.acts = s.core.RemoveVersion(now, v, sc.acts)
	s.trace.event("removeVersion", now, v, sc.acts)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Expel ends the tasks of a version that have rows waiting, with ErrRemoved, and refuses further ones. It returns at once; batches in
// flight go on. RemoveVersion, which waits for these, must follow.
func (s *Scheduler) Expel(v VersionID) {
	s.mu.Lock()
	var sc scratch
	now := s.nowLocked(s.now())
	sc.acts = s.core.Expel(now, v, sc.acts)
	s.trace.event("expel", now, v, sc.acts)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
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

func (s *Scheduler) now() Time { return Time(time.Since(s.epoch)) }

// nowLocked makes times that were read before the lock was taken follow each other, as Core expects.
func (s *Scheduler) nowLocked(read Time) Time {
	s.latest = max(s.latest, read)
	return s.latest
}
