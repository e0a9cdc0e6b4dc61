package shell

import (
	"context"
	"sync"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// Scheduler is the shell around Core: one mutex, one timer, and one batch thread per lane. It turns calls into events
// for Core and Core's actions into answers. Its methods are safe for concurrent use.
type Scheduler struct {
	exec     Executor
	obs      Observer  // may be nil
	tele     Telemetry // may be nil
	epoch    time.Time
	ops      sync.Pool // of *op
	recorder *recorder // nil: no trace
	delivery delivery
	// closed by Abandon
	abandoned chan struct{}

	mu      sync.Mutex
	core    *sharedsched.Core                       // guarded by mu
	waiting []*op                                   // guarded by mu; by task slot: the caller that waits for the task
	gone    map[sharedsched.VersionID]chan struct{} // guarded by mu; closed when the version's last task has ended
	rooms   map[place]*room                         // guarded by mu; where callers wait for room
	waits   map[named]*waits                        // guarded by mu; of callers for room, ever
	// guarded by mu; closed when a draining core has no task left. Nil: not draining
	empty  chan struct{}
	timer  *time.Timer      // guarded by mu
	armed  sharedsched.Time // guarded by mu; when the timer fires
	closed bool             // guarded by mu
	idle   int              // guarded by mu; batch threads that wait for work
	latest sharedsched.Time // guarded by mu; of the latest event
	crews  []*crew          // guarded by mu; by device, in the order in which they were added
}

// New starts a scheduler. Close ends it.
func New(cfg sharedsched.Config, exec Executor, given Options) (*Scheduler, error) {
	core, err := sharedsched.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		exec: exec, obs: given.Observer, tele: given.Telemetry, epoch: time.Now(), core: core,
		gone: map[sharedsched.VersionID]chan struct{}{}, rooms: map[place]*room{},
		waits: map[named]*waits{}, armed: sharedsched.Never,
		abandoned: make(chan struct{}),
	}
	if s.recorder = newRecorder(&cfg, &given); s.recorder != nil {
		go s.record(given.Trace)
	}
	s.ops.New = func() any { return &op{done: make(chan struct{}, 1)} }
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	first := sharedsched.LaneID(0)
	for _, d := range cfg.Devices {
		s.enlistLocked(d, first)
		first += sharedsched.LaneID(d.Lanes)
	}
	return s, nil
}

// AddFlow adds a unit of fairness: one version, or all versions of a model. Its versions share weight's part of the
// named device whenever that is contended. The errors are those of EventAddFlow.
func (s *Scheduler) AddFlow(name, device string, weight float64) (sharedsched.FlowID, error) {
	out, err := s.tell(&sharedsched.Event{Kind: sharedsched.EventAddFlow, Name: name, Device: device, Weight: weight})
	return out.Flow, err
}

// RemoveFlow forgets a flow. Its versions must be gone, or its device.
func (s *Scheduler) RemoveFlow(f sharedsched.FlowID) {
	_, _ = s.tell(&sharedsched.Event{Kind: sharedsched.EventRemoveFlow, Flow: f}) // it has no error
}

// AddVersion adds a version whose tasks are charged to flow f. The name, such as "model/3", is for people. The errors
// are those of EventAddVersion.
func (s *Scheduler) AddVersion(
	name string, f sharedsched.FlowID, settings sharedsched.Settings,
) (sharedsched.VersionID, error) {
	out, err := s.tell(&sharedsched.Event{Kind: sharedsched.EventAddVersion, Name: name, Flow: f, Settings: &settings})
	return out.Version, err
}

// Inherit lets a version begin with the known costs of another on the same device, such as the previous version, until
// its own are measured. moved: it is the other one under a new id, with the same engine and the memory that this has
// taken.
func (s *Scheduler) Inherit(v, from sharedsched.VersionID, moved bool) {
	ev := sharedsched.Event{Kind: sharedsched.EventInherit, Version: v, From: from, Moved: moved}
	_, _ = s.tell(&ev) // it has no error
}

// Configure changes a version's settings from the next batch on. The errors are those of EventConfigure.
func (s *Scheduler) Configure(v sharedsched.VersionID, settings sharedsched.Settings) error {
	_, err := s.tell(&sharedsched.Event{Kind: sharedsched.EventConfigure, Version: v, Settings: &settings})
	return err
}

// RemoveVersion refuses further tasks of a version with ErrRemoved and returns when its last task has ended, or with
// the context's error; the removal goes on in that case.
func (s *Scheduler) RemoveVersion(ctx context.Context, v sharedsched.VersionID) error {
	s.mu.Lock()
	if s.core.Settings(v) == nil {
		s.mu.Unlock()
		return nil
	}
	gone := s.gone[v]
	if gone == nil {
		gone = make(chan struct{})
		s.gone[v] = gone
	}
	s.mu.Unlock()
	_, _ = s.tell(&sharedsched.Event{Kind: sharedsched.EventRemoveVersion, Version: v}) // it has no error
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Expel ends the tasks of a version that have rows waiting, with ErrRemoved, and refuses further ones. It returns at
// once; batches in flight go on. RemoveVersion, which waits for these, must follow.
func (s *Scheduler) Expel(v sharedsched.VersionID) {
	_, _ = s.tell(&sharedsched.Event{Kind: sharedsched.EventExpel, Version: v}) // it has no error
}

// State returns a copy of the scheduler's state.
func (s *Scheduler) State() sharedsched.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.core.State(s.nowLocked(s.now()))
	s.tellOfRoomsLocked(&state)
	return state
}

// Epoch returns when the scheduler's clock began.
func (s *Scheduler) Epoch() time.Time { return s.epoch }

// VersionName returns the name that a version was added with, "" for one that is gone.
func (s *Scheduler) VersionName(v sharedsched.VersionID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _ := s.core.Names(v)
	return name
}

// now reads the clock.
func (s *Scheduler) now() sharedsched.Time { return sharedsched.Time(time.Since(s.epoch)) }

// nowLocked makes times that were read before the lock was taken follow each other, as Core expects.
func (s *Scheduler) nowLocked(read sharedsched.Time) sharedsched.Time {
	s.latest = max(s.latest, read)
	return s.latest
}

// tell passes an event to Core and carries out the actions that result. For events that come with every request there
// are cheaper ways.
func (s *Scheduler) tell(ev *sharedsched.Event) (sharedsched.Answer, error) {
	var sc scratch
	s.mu.Lock()
	now := s.nowLocked(s.now())
	err := s.stepLocked(now, ev, &sc.Answer)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
	return sc.Answer, err
}

// stepLocked passes an event to Core, and records it. There is no other way to Core.
func (s *Scheduler) stepLocked(now sharedsched.Time, ev *sharedsched.Event, out *sharedsched.Answer) error {
	first := len(out.Actions)
	err := s.core.Step(now, ev, out)
	if s.recorder != nil {
		s.recorder.recordLocked(now, ev, out, first, err)
	}
	return err
}
