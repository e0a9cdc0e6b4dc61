// Package shadow shows requests that were answered to other versions of the model as well, in the background, and
// compares the answers.
package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Models runs calls.
type Models interface {
	// Predict runs the call and fills its Results and Outcome. It returns only when nothing reads call.Inputs any more.
	// When ctx ends, a call that is still queued fails at once with context.Cause(ctx). Safe for concurrent use.
	Predict(ctx context.Context, call *catalog.Call) error
}

// Observer is notified of how mirrored requests ended, for metrics.
type Observer interface {
	// ShadowDone is called once for each answered request and shadow that its model's traffic names, by any goroutine
	// and also by the one that offered. It must not block.
	ShadowDone(Event)
}

// Outcome is how a request that was offered ended.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"    // answered and compared
	Dropped Outcome = "dropped" // there was no room for it, no spare device time, or the shadow was not ready
	Failed  Outcome = "failed"  // the shadow's model failed, or cannot take the primary's inputs
	// Skipped: it was not offered, by the sample or since the shadow was not ready, or the shadow keeps the state of
	// episodes and did not do all steps before.
	Skipped Outcome = "skipped"
)

// Event says how one request ended at one shadow.
type Event struct {
	Model           string
	Primary, Shadow int64
	Outcome         Outcome
	// Agreed, MaxRelative and ComputeRatio are of those Done: whether all outputs were within the tolerance, the
	// largest difference of any (see Difference; it may be +Inf), and the shadow's compute time as a multiple of the
	// primary's (0: not known).
	Agreed       bool
	MaxRelative  float64
	ComputeRatio float64
}

// Config says how much of the machine a Mirror may take. Models is required; zero means the default of everything else.
type Config struct {
	Models Models
	// MaxPending bounds the requests that are pending over all shadows, and with them the goroutines. Default 256. Too
	// few: requests are dropped that the scheduler would have joined to batches.
	MaxPending int
	// MaxPendingBytes bounds the memory of their inputs and answers, which they keep alive. Default 64 MiB.
	MaxPendingBytes int64
	// Timeout is how long a request waits for spare device time. Default 10 s.
	Timeout time.Duration
	// Observer may be nil.
	Observer Observer
	// Shown is told what the Observer is told, with the episode of the request; nil: nobody is. It must not block.
	Shown func(model string, shadow int64, episode, outcome string, agreed bool)
	// Log receives a line of JSON for each request that ended, except the ones that found no room or were skipped. Lines
	// that it is too slow for, or fails on, are lost and counted. Nil: none. The caller closes it, after Close.
	Log io.Writer
	// Logger is for events that an operator should know of. Nil: slog.Default().
	Logger *slog.Logger
}

// Offer is an answered request and the shadows to show it to.
type Offer struct {
	// Primary was answered. Its version's signature is that of its inputs. What is read of it later on is copied.
	Primary                  *catalog.Call
	Slot, RequestID, Episode string
	Shadows                  []Target
	// Named are all shadows that the traffic names: the ones that are not among Shadows are skipped. Read only.
	Named []catalog.Shadow
	// Follow returns the context of work that follows from the request; nil: the request is not traced.
	Follow func(context.Context) context.Context
}

// Target is a version that is shown a request.
type Target struct {
	Version *catalog.Version
	// Shadow has the tolerances. While one of them names something other than a floating point output of the version,
	// every request shown to it fails, and the failure says so: that output would be judged by another tolerance than
	// was asked for.
	Shadow catalog.Shadow
	// Step is the request as a step of an episode whose state the version keeps; nil: it keeps nothing of it.
	Step Step
}

// Step is a step of an episode that a shadow is to do. One goroutine uses it at a time.
type Step interface {
	// Enter waits for the steps before, until ctx ends, and completes a call with the state: inputs that did not come, and
	// wanted outputs behind the others. The error is ErrMissed where one of the steps before was not done.
	Enter(ctx context.Context, call *catalog.Call) error
	// Commit keeps the state after an answered call, which is left without the outputs that Enter added, and leaves.
	Commit(call *catalog.Call) error
	// Leave lets the next step go on. Each step leaves in the end; without Commit, the later ones get ErrMissed.
	Leave()
}

// ErrMissed says that a shadow did not do an earlier step of the episode.
var ErrMissed = errors.New("the shadow did not do all steps of the episode before")

// Mirror shows requests to shadows. An offered request is either dropped at once or pending until it is done, dropped
// or failed. It is safe for concurrent use. None of its locks is held while a model runs, or while Shown or the
// Observer is told.
type Mirror struct {
	config     Config
	journal    journal         // for Config.Log, if there is one
	life       context.Context //nolint:containedctx // the mirror's own life: ends when Close gives up waiting
	endLife    context.CancelFunc
	goroutines sync.WaitGroup // Close waits for them; after it, only one that runs adds another

	comparing sync.Mutex // taken alone

	mu      sync.Mutex // taken alone
	pairs   map[key]*pair
	noises  map[output]*noise
	clock   uint64 // ticks with each offer and each audit
	running int    // requests
	bytes   int64  // that they hold on to
	closed  bool
}

// New returns a mirror. It has no goroutine until something is offered.
func New(c Config) *Mirror {
	c.MaxPending = cmp.Or(max(0, c.MaxPending), 256)
	c.MaxPendingBytes = cmp.Or(max(0, c.MaxPendingBytes), 64<<20)
	c.Timeout = cmp.Or(max(0, c.Timeout), 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	m := &Mirror{config: c, pairs: map[key]*pair{}, noises: map[output]*noise{}}
	m.journal = journal{w: c.Log, log: c.Logger, goroutines: &m.goroutines}
	m.life, m.endLife = context.WithCancel(context.Background())
	return m
}

// Offer shows a request to its shadows. It neither waits nor fails: a request for which there is no room is dropped, as
// is every one after Close. It copies the tensors of one for which there is room.
func (m *Mirror) Offer(o Offer) {
	for i := range o.Named {
		m.skip(&o, &o.Named[i])
	}
	size, kept := o.size(), false
	for _, target := range o.Shadows {
		j := &job{offer: &o, target: target, bytes: size}
		if m.enter(j) {
			// Once for all shadows: the caller's tensors are used again when Offer returns.
			if !kept {
				o.Primary, kept = o.Primary.Clone(), true
			}
			go m.run(j)
		} else {
			if target.Step != nil {
				target.Step.Leave()
			}
			m.tell(j.pair.key, o.Episode, Event{Outcome: Dropped})
		}
	}
}

// skip counts a request that a shadow might have been shown, if the shadow is not among the ones that are shown it. The
// version that answered is no shadow of itself.
func (m *Mirror) skip(o *Offer, named *catalog.Shadow) {
	primary := o.Primary.Version
	if named.Version == primary.Number || slices.ContainsFunc(o.Shadows, func(t Target) bool {
		return t.Version.Number == named.Version
	}) {
		return
	}
	m.mu.Lock()
	p := m.pairLocked(key{primary.Model, primary.Number, named.Version})
	p.Skipped++
	m.mu.Unlock()
	m.tell(p.key, o.Episode, Event{Outcome: Skipped})
}

// enter counts a job and reports whether there is room for it. A job that has entered must be run, which gives its room
// back.
func (m *Mirror) enter(j *job) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pairLocked(key{j.target.Version.Model, j.offer.Primary.Version.Number, j.target.Version.Number})
	m.clock++
	p.last = m.clock
	j.pair = p
	p.Offered++
	if m.closed || m.running == m.config.MaxPending || j.bytes > m.config.MaxPendingBytes-m.bytes {
		p.Dropped++
		return false
	}
	p.Pending++
	m.running++
	m.goroutines.Add(1)
	m.bytes += j.bytes
	return true
}

// pairLocked returns the counts of a pair, new ones if it has none. Of too many pairs the one is forgotten that was
// offered nothing for the longest. The caller holds mu.
func (m *Mirror) pairLocked(k key) *pair {
	if p := m.pairs[k]; p != nil {
		return p
	}
	if len(m.pairs) == maxPairs {
		oldest := slices.MinFunc(slices.Collect(maps.Values(m.pairs)), func(a, b *pair) int {
			return cmp.Compare(a.last, b.last)
		})
		clear(oldest.prints) // a pending request may hold on to the pair
		delete(m.pairs, oldest.key)
	}
	p := &pair{
		key: k, Summary: Summary{Model: k.model, PrimaryVersion: k.primary, ShadowVersion: k.shadow},
		prints: map[string]*imprint{},
	}
	m.pairs[k] = p
	return p
}

// run takes a job that entered to its end, and gives its room back last: Summaries and the log have it before Close
// returns.
func (m *Mirror) run(j *job) {
	defer m.goroutines.Done()
	v := m.end(j)
	m.mu.Lock()
	j.pair.settle(&v)
	m.markLocked(j, v.seen, time.Now())
	// The log gets the first failure of a pair only, for a shadow that fails does so with each request.
	first := v.Outcome == Failed && j.pair.Failed == 1
	m.mu.Unlock()
	if first {
		m.config.Logger.Warn("shadow request failed", "event", "shadow_failed", "model", j.pair.model,
			"version", j.pair.shadow, "answered_by", j.pair.primary, "repeats", "only counted", "cause", v.cause)
	}
	m.tell(j.pair.key, j.offer.Episode, v.Event)
	if m.config.Log != nil && v.Outcome != Skipped {
		m.journal.add(lineOf(j, &v))
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.bytes -= j.bytes
}

// tell completes an event and tells it to Shown and the Observer.
func (m *Mirror) tell(of key, episode string, e Event) {
	e.Model, e.Primary, e.Shadow = of.model, of.primary, of.shadow
	if m.config.Shown != nil {
		m.config.Shown(e.Model, e.Shadow, episode, string(e.Outcome), e.Agreed)
	}
	if m.config.Observer != nil {
		m.config.Observer.ShadowDone(e)
	}
}

// Summaries returns the pairs of a model ("": of all), ascending by model, primary and shadow. All of them are of one
// moment. It copies what it returns.
func (m *Mirror) Summaries(model string, d Detail) []Summary {
	now := time.Now()
	all := []Summary{}
	var primary, shadow [][]time.Duration
	m.mu.Lock()
	for _, p := range m.pairs {
		if model == "" || p.model == model {
			s := p.Summary
			s.Outputs, s.Failures = p.tally.Outputs(), slices.Clone(p.Failures)
			if d != (Detail{}) {
				m.describeLocked(p, &s, d, now)
			}
			all = append(all, s)
			primary = append(primary, slices.Clone(p.computes.primary))
			shadow = append(shadow, slices.Clone(p.computes.shadow))
		}
	}
	m.mu.Unlock()
	for i := range all { // outside the lock, since it sorts
		s := &all[i]
		s.PrimaryComputeP50, s.PrimaryComputeP99 = quantiles(primary[i])
		s.ShadowComputeP50, s.ShadowComputeP99 = quantiles(shadow[i])
	}
	slices.SortFunc(all, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.PrimaryVersion, b.PrimaryVersion),
			cmp.Compare(a.ShadowVersion, b.ShadowVersion))
	})
	return all
}

// LinesLost returns how many lines did not reach Config.Log.
func (m *Mirror) LinesLost() int64 { return m.journal.lost.Load() }

// Close drops requests that are offered from now on, and waits for the pending ones and for their lines to be written.
// When ctx ends it cancels the requests that are still queued and returns an error that says how many it left behind;
// the running ones then end by themselves, soon. It may be called more than once.
func (m *Mirror) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	defer m.endLife()

	// The goroutine that waits outlives Close where ctx ends first.
	ended := make(chan struct{})
	go func() {
		m.goroutines.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.running > 0:
		return fmt.Errorf("%d requests were still shown to shadows and are cut off: %w", m.running, context.Cause(ctx))
	case m.journal.writing.Load():
		return fmt.Errorf("the log of shadows was not written to its end: %w", context.Cause(ctx))
	}
	return nil // ctx ended, but nothing is left to wait for
}
