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

// op is one call of Do that waits for its task.
type op struct {
	done    chan struct{} // capacity 1, so that an answer never blocks the batch thread
	end     End
	err     error // for EndFailed
	outcome Outcome
	dropped *Refusal      // for EndDropped
	waited  time.Duration // until there was room
	payload any           // the task's
	scratch scratch
}

// scratch is memory for the actions of one event.
type scratch struct {
	acts  []Action
	ended []*op
}

// batchThread runs the batches of one lane, one after the other.
type batchThread struct {
	lane   LaneID
	device string        // the lane's
	wake   chan struct{} // capacity 1: a wake-up while awake is remembered once, which is enough
	idle   bool          // guarded by Scheduler.mu
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

// Do submits a task and waits until it ends. It returns only when nothing will read the task's payload any more: when ctx ends,
// a task that still has rows waiting is taken out at once and the error is the context's cause; a task all of whose rows are
// running is waited for, and answered. Other errors: those of Core.Submit, ErrExpired, ErrClosed, ErrRemoved, and what the Executor set on
// a span.
func (s *Scheduler) Do(ctx context.Context, v VersionID, t *Task) (Outcome, error) {
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	o := s.ops.Get().(*op)
	defer s.recycle(o)
	h, err := s.admit(ctx, v, t, o)
	if err != nil {
		return Outcome{}, err
	}

	select {
	case <-o.done:
	case <-ctx.Done():
		s.cancel(h, o)
		<-o.done
	}
	o.outcome.Queue += o.waited
	switch o.end {
	case EndDone:
		return o.outcome, nil
	case EndFailed:
		return o.outcome, o.err
	case EndCancelled:
		err = context.Cause(ctx)
	case EndExpired:
		err = ErrExpired
	case EndClosed:
		err = ErrClosed
	case EndDropped:
		err = o.dropped
	case EndRemoved:
		err = ErrRemoved
	}
	return o.outcome, err
}

// admit hands the task to Core, after waiting for room if need be.
func (s *Scheduler) admit(ctx context.Context, v VersionID, t *Task, o *op) (Handle, error) {
	o.waited = 0
	read := s.now() // reading the clock takes as long as all the rest that the lock is held for
	s.mu.Lock()
	now := s.nowLocked(read)
	limit := Never
	if !t.Limit.IsZero() {
		limit = Time(t.Limit.Sub(s.epoch))
	}
	var r *room // that it was called from
	for arrival := now; ; {
		if s.closed {
			r.answeredLocked(ErrClosed)
			s.mu.Unlock()
			return 0, ErrClosed
		}
		o.scratch.reset()
		if !s.mustWaitLocked(v, t, r != nil) {
			var h Handle
			var err error
			h, o.scratch.acts, err = s.core.Submit(now, v, t, limit, o.scratch.acts)
			s.trace.submit(now, v, t, limit, h, o.scratch.acts, err)
			if len(o.scratch.acts) > 0 {
				s.settleLocked(&o.scratch) // first: the task may have got the slot of one that made room for it
			}
			if err == nil {
				s.wait(h, o, t.Payload)
			}
			r.answeredLocked(err)
			s.afterEventLocked(now, &o.scratch)
			s.mu.Unlock()
			o.scratch.answer()
			return h, err
		}
		line := s.lineUpLocked(v, r != nil)
		if limit == Never {
			limit = s.core.limit(v, arrival)
		}
		s.mu.Unlock()
		if ok, err := s.awaitRoom(ctx, v, line, limit); !ok {
			return 0, err
		}
		read = s.now()
		s.mu.Lock()
		now = s.nowLocked(read)
		r = s.rooms[v]
		r.called--
		o.waited = now.Sub(arrival)
		if t.Target > 0 { // it counts from the arrival
			late := *t
			late.Target = max(1, t.Target-o.waited)
			t = &late
		}
	}
}

func (s *Scheduler) recycle(o *op) {
	o.err, o.payload, o.dropped = nil, nil, nil
	s.ops.Put(o)
}

func (s *Scheduler) wait(h Handle, o *op, payload any) {
	o.payload = payload
	for int(h.slot()) >= len(s.waiting) {
		s.waiting = append(s.waiting, nil)
	}
	s.waiting[h.slot()] = o
}

func (s *Scheduler) cancel(h Handle, o *op) {
	s.mu.Lock()
	o.scratch.reset()
	now := s.nowLocked(s.now())
	_, o.scratch.acts = s.core.Cancel(now, h, o.scratch.acts)
	s.trace.cancel(now, h, o.scratch.acts)
	s.afterEventLocked(now, &o.scratch)
	s.mu.Unlock()
	o.scratch.answer()
}

// Hurry ends all holding of batches for their timeouts from now on, while tasks are admitted as before. A server that stops calls
// it when it takes no more requests and waits for those it has.
func (s *Scheduler) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked(s.now())
	s.core.Hurry(now)
	s.trace.event("hurry", now, 0, nil)
	s.afterEventLocked(now, nil)
}

// Drain refuses further tasks with ErrDraining and returns when every admitted one has ended, or with the context's error.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.mu.Lock()
	now := s.nowLocked(s.now())
	s.core.Drain(now)
	s.trace.event("drain", now, 0, nil)
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.afterEventLocked(now, nil)
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close abandons what waits, waits for the batches in flight, and ends the batch threads. It may be called more than once.
func (s *Scheduler) Close() {
	s.Abandon()
	s.done.Wait()
}

// Abandon ends tasks that have rows waiting with ErrClosed and takes no more. Batches in flight go on. Close must follow.
func (s *Scheduler) Abandon() {
	s.mu.Lock()
	var sc scratch
	if !s.closed {
		s.closed = true
		now := s.nowLocked(s.now())
		sc.acts = s.core.Close(now, sc.acts)
		s.trace.event("close", now, 0, sc.acts)
		s.afterEventLocked(now, &sc)
		s.timer.Stop()
		for _, t := range s.threads {
			t.signal()
		}
	}
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
