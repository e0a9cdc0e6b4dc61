// Package shell runs the Core of a scheduler in a server: it brings the clock, the lock and the goroutines.
//
// Scheduler turns calls into events for Core, and Core's actions into answers. It has one batch thread for each lane of
// each device, a timer for the times at which Core must act though no event happens, and, where a trace is asked for, a
// goroutine that writes it.
//
// # Locks
//
// Scheduler.mu guards Core and every field marked so. It is a leaf: while it is held no other lock is taken, and
// neither the Executor, the Observer, the Telemetry, the writer of a trace nor a caller is called. A trace is appended
// to memory under it, and written by a goroutine of its own without.
//
// # Bounds
//
// A trace keeps at most twice 16 MiB in memory for its writer. There are as many threads as the present devices have
// lanes, and those of removed devices that hang. The owner must bound the callers that wait for room (WaitWhenFull).
package shell

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
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

// Load returns how much the devices have to do, see [sharedsched.Core.Load], and when that was, on the scheduler's
// clock.
func (s *Scheduler) Load() (sharedsched.Time, []sharedsched.DeviceLoad) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked(s.now())
	return now, s.core.Load(now)
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

// Options are the listeners and the sources of a Scheduler. All of them are fixed for its life.
type Options struct {
	// Observer is notified of executions. Nil: none.
	Observer Observer
	// Telemetry reports the state of the devices. Nil: only the measured times of executions show it.
	Telemetry Telemetry
	// Trace is given lines of JSON, one for each event with the decisions, so that trace.Replay can make them again. A
	// goroutine of the Scheduler writes to it, with no lock held; Close writes the rest. Nil: none.
	Trace io.Writer
	// TraceCut is called once, from a goroutine of its own, if Trace does not keep up and is cut: when more than 16 MiB
	// wait for it the trace ends with a line that says so, and the scheduler goes on without it. May be nil.
	TraceCut func()
}

// Executor runs batches on a device. The scheduler calls Execute from one batch thread per lane, never with a lock
// held.
type Executor interface {
	// Execute runs the batch once and blocks until it is done. It must set Err of each span that has no answer, and
	// have delivered the rows of the others, before it returns. The batch is valid until then. Execute must end in
	// bounded time: the lane is lost until it does.
	Execute(b *sharedsched.Batch) sharedsched.Report
}

// Telemetry reports the state of devices, so that estimates follow a change before many executions have shown it. Batch
// threads ask after each execution and when they are woken for work, never with a lock held.
type Telemetry interface {
	// Sample returns the latest sample of the named device, and a number that grows whenever the sample changes; 0
	// while there has been none. It must not block. One that has become too old must give way to one that is Expired.
	Sample(device string) (cost.Sample, uint64)
}

// Observer is notified of executions, for metrics. It is not notified of tasks: Do returns the outcome of a task to its
// caller, and only the caller knows whether the task was a request, and whether it is tried elsewhere.
type Observer interface {
	// BatchDone follows every execution, before the callers of the batch are answered. It is called from any goroutine,
	// never with a lock held, and must not block.
	BatchDone(sharedsched.BatchEvent)
}
