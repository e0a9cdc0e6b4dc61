package episode

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// Mark says which step of its episode one is, so that a shadow knows whether it has done all steps before.
type Mark struct {
	// Now is the step's own, which no other step of the episode has, and Before that of the step before. Now is 0: it
	// does not count.
	Now, Before uint64
	Begin, Last bool
}

// Mark returns the mark of a step after Commit.
func (t *Turn) Mark() Mark {
	if !t.committed {
		return Mark{}
	}
	return Mark{Now: t.of.mark, Before: t.before.mark, Begin: t.ask.Begin, Last: t.last} // only this turn changes them
}

// Numbered returns the mark of a step that a version without state answered: there is only the number that the caller
// gave it. It does not count if that is 0.
func Numbered(step uint64, begin, last bool) Mark {
	const numbered = 1 << 63 // no mark of a Turn is as large
	if step == 0 {
		return Mark{}
	}
	return Mark{Now: numbered | step, Before: numbered | (step - 1), Begin: begin, Last: last}
}

// shadows are an episode as versions in the shadow do it, by their numbers.
type shadows map[int64]*shadow

// shadow is an episode as a version in the shadow does it. Its steps are in a line, where each waits until the one
// before has left, and goes on with the state after that. All of it is guarded by the store's mu.
type shadow struct {
	key     Key
	version int64
	idle    time.Duration
	timer   *time.Timer // looks whether it is idle
	used    time.Time
	held    int64       // bytes that are counted for it
	gone    bool        // it is not in the store any more
	line    int         // how many steps have not left
	tail    *ShadowStep // the latest
	latest  uint64      // its mark; 0: none may follow but one that begins the episode anew
}

// ShadowStep is a step that a shadow is to do. One goroutine uses it at a time.
type ShadowStep struct {
	store   *Store
	of      *shadow
	version *catalog.Version
	begin   bool
	last    bool
	before  *ShadowStep // until it enters; nil: it is the first
	rows    int

	left  chan struct{} // is closed when it has left
	over  bool          // it has left
	after past          // guarded by the store's mu; the zero value: it was not done
}

// Shadow has a version in the shadow do a step of an episode that another version answered. Leave must follow. The
// steps of an episode are to come in their order. Nil: the shadow has not done all steps before, or there is no room.
func (s *Store) Shadow(k Key, v *catalog.Version, m Mark) *ShadowStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.shown[k][v.Number]
	switch {
	case m.Now == 0 || e != nil && m.Now == e.latest: // the latter is a retry
		return nil
	case e == nil && (!m.Begin || s.bytes+overhead > s.config.Memory):
		return nil
	case e == nil:
		e = &shadow{key: k, version: v.Number}
		s.holdLocked(e, overhead)
		if s.shown[k] == nil {
			s.shown[k] = shadows{}
		}
		s.shown[k][v.Number] = e
		e.timer = time.AfterFunc(v.EpisodeState.Idle, func() { s.expireShadow(e) })
	case !m.Begin && m.Before != e.latest:
		s.stopLocked(e)
		return nil
	}
	t := &ShadowStep{
		store: s, of: e, version: v, begin: m.Begin, last: m.Last, before: e.tail, left: make(chan struct{}),
	}
	e.tail, e.latest, e.idle, e.used = t, m.Now, v.EpisodeState.Idle, time.Now()
	if m.Last {
		e.latest = 0
	}
	e.line++
	return t
}

// holdLocked counts what a shadow holds now. The caller holds mu.
func (s *Store) holdLocked(e *shadow, now int64) {
	s.bytes += now - e.held
	s.spare += now - e.held
	e.held = now
}

// expireShadow forgets a shadow if it is idle.
func (s *Store) expireShadow(e *shadow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := e.idle - time.Since(e.used)
	switch {
	case e.gone:
	case left > 0 || e.line > 0:
		e.timer.Reset(max(left, time.Second))
	default:
		s.dropLocked(e)
	}
}

// stopAllLocked is stopLocked of all shadows of an episode.
func (s *Store) stopAllLocked(k Key) {
	for _, e := range s.shown[k] {
		s.stopLocked(e)
	}
}

// stopLocked has no step follow the ones in line, but one that begins anew. The caller holds mu.
func (s *Store) stopLocked(e *shadow) {
	if e.latest = 0; e.line == 0 {
		s.dropLocked(e)
	}
}

// dropLocked forgets a shadow, whose steps in line find that. The caller holds mu.
func (s *Store) dropLocked(e *shadow) {
	if e.gone {
		return
	}
	s.holdLocked(e, 0)
	e.gone, e.tail = true, nil
	e.timer.Stop()
	if delete(s.shown[e.key], e.version); len(s.shown[e.key]) == 0 {
		delete(s.shown, e.key)
	}
}

// Enter waits for the step before, until ctx ends, and completes the inputs with the state; rows and newest are those
// of an Ask. The error is a *LostError, or the cause of ctx.
func (t *ShadowStep) Enter(ctx context.Context, inputs []tensor.Tensor, rows int, newest []bool) error {
	if t.before != nil {
		select {
		case <-t.before.left:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	t.rows = rows
	turn := Turn{
		ask: Ask{Key: t.of.key, Version: t.version, Rows: rows, Newest: newest, Last: t.last}, Fresh: t.begin,
	}
	if !t.take(&turn) {
		return &LostError{Key: t.of.key}
	}
	return turn.Fill(inputs)
}

// take finds the state that a step begins with; not ok: there is none.
func (t *ShadowStep) take(turn *Turn) (ok bool) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	before := t.before
	t.before = nil // whose state nobody needs any more
	switch {
	case t.begin || t.of.gone:
		return !t.of.gone
	case !before.after.answered || before.rows != t.rows:
		return false
	}
	state, same, fits := before.after.stateFor(t.version)
	turn.state = state
	return same && fits
}

// Commit keeps the state after the step, if there is room. inputs and outputs are those of [Turn.Commit].
func (t *ShadowStep) Commit(inputs, outputs []tensor.Tensor) {
	after := past{of: t.version, state: stateAfter(t.version, t.rows, inputs, outputs), answered: true}
	s, e := t.store, t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.gone:
	case s.bytes+after.bytes()-e.held > s.config.Memory:
		s.dropLocked(e)
	default:
		t.after = after
		s.holdLocked(e, after.bytes())
	}
}

// Leave lets the next step go on. It may be called again. Without Commit, only one that begins anew does.
func (t *ShadowStep) Leave() {
	if t.over {
		return
	}
	t.over = true
	close(t.left)
	s, e := t.store, t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	e.used = time.Now()
	e.line--
	if e.tail == t && !t.after.answered {
		e.latest = 0
	}
	if e.latest == 0 {
		s.stopLocked(e)
	}
}
