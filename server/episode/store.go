// Package episode keeps the state of episodes: what a recurrent policy gives for its own next step. A client begins an
// episode, and names it in each request; the state itself stays in the server.
//
// The state of an episode is a list of tensors that nobody changes: the inputs of its next step. A step takes them as
// they are, and a step that was answered puts others in their place. So one that failed, was refused, given up or run
// again leaves nothing behind, and the end of an engine's process loses no state. Steps of one episode run one after
// the other, in the order in which they Enter.
//
// Steps may be numbered, ascending. The number of the latest step again is a retry: it gets the answer that there was,
// and nothing runs. So the effect of each step is there once, however often a client, or a hedge of it, sends it.
//
// An episode ends by its last request, by being idle, or with the stream that it began on if its model says so. Another
// version than the one that it began with goes on with it only if its settings say so. A step of one that is not there
// is refused, and never begins one by itself. At the bounds new episodes are refused; none that lives is put out for
// them.
//
// A version in the shadow does the steps once more, with a state of its own (ShadowStep), in room that nobody else
// needs.
package episode

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// Config holds the bounds of a Store.
type Config struct {
	// Memory is how many bytes all states may take together.
	Memory int64
}

// End is why an episode ended.
type End string

// The ends. They are values of metrics.
const (
	ByRequest  End = "ended"  // by its last request
	Again      End = "begun"  // its client began it again
	Idle       End = "idle"   // no request came
	WithStream End = "stream" // with the stream that it began on
)

// Key names an episode. Those of two identities have nothing to do with each other.
type Key struct{ Identity, Model, Episode string }

// Store holds the episodes of all models. Safe for concurrent use.
type Store struct {
	config Config

	mu    sync.Mutex
	all   map[Key]*session  // guarded by mu
	over  set               // guarded by mu; those of all that have ended
	bound map[any]set       // guarded by mu; those of all that end with a stream, by it
	shown map[Key]shadows   // guarded by mu
	marks uint64            // guarded by mu; of steps that were answered
	lives map[string]int    // guarded by mu; by model; ended ones do not count
	ended map[Ending]uint64 // guarded by mu
	bytes int64             // guarded by mu
	begun int64             // guarded by mu; the number of the latest session
	of    map[string]int64  // guarded by mu; of bytes, by model
	spare int64             // guarded by mu; those of bytes that shadows have
	// answers are those of bytes that episodes have which have ended; guarded by mu
	answers int64
}

type set map[*session]struct{}

// NewStore returns an empty Store.
func NewStore(c Config) *Store {
	return &Store{
		config: c, all: map[Key]*session{}, over: set{}, bound: map[any]set{}, shown: map[Key]shadows{},
		lives: map[string]int{}, ended: map[Ending]uint64{}, of: map[string]int64{},
		begun: rand.Int64N(1 << 52), // numbers are not those of another server, and JSON holds them
	}
}

// session is an episode.
type session struct {
	key    Key
	turn   chan struct{} // has an element while nobody has the turn
	number int64

	// The rest is guarded by the store's mu. Only who has the turn changes past.
	past
	idle  time.Duration
	timer *time.Timer // looks whether it is idle
	over  End         // it has ended, and is kept for retries of its last step
	used  time.Time
	held  int64 // bytes that are counted for it
	in    any   // the stream of Store.bound that it is under; nil: none
	// beginning: a step is under way that begins it. What ends the one before is not for this one.
	beginning bool
	gone      bool // it is not in the store any more
}

// past is what the steps until now have left. The zero value: none was answered.
type past struct {
	state    []tensor.Tensor // as the inputs that the version keeps
	of       *catalog.Version
	rows     int
	stream   any
	steps    int64  // that were answered since it began
	step     uint64 // the latest that was answered; 0: they have no numbers
	first    uint64 // that it began with
	mark     uint64 // no other step has it, see Mark
	answer   *Answer
	answered bool // a step was: until then it is not there for anybody but who begins it
}

// overhead is what an episode takes besides its tensors, about.
const overhead = 512

// bytes returns what the past takes.
func (p *past) bytes() int64 { return sizeOf(p.state) + p.answer.size() + overhead }

// Answer is what a step gave, for retries of it.
type Answer struct {
	Version *catalog.Version
	Wanted  []int
	Results []tensor.Tensor
}

func (a *Answer) size() (n int64) {
	if a != nil {
		n = sizeOf(a.Results)
	}
	return n
}

func sizeOf(all []tensor.Tensor) (n int64) {
	for i := range all {
		n += int64(max(all[i].Size(), cap(all[i].Data))) // memory of a pool is larger than what lies in it
	}
	return n
}

// Ask is a step that somebody wants to do.
type Ask struct {
	Key
	Version *catalog.Version // that is to answer, which has an EpisodeState
	Begin   bool
	Last    bool   // it says that it is the last one
	Step    uint64 // 0: it has no number
	Rows    int
	// Brought: the request brings all inputs that are kept.
	Brought bool
	// Newest says which of the inputs that are kept are windows whose newest value the request brings; nil: none.
	Newest []bool
	Stream any // that it came on; nil: on none
	// After is closed when the step before it on the stream was answered; nil: there is none.
	After <-chan struct{}
	// AfterBegin: After waits for one that begins the episode, among others.
	AfterBegin bool
	// Stay: the version that has the state is to go on with it, if that is another one.
	Stay bool
	// Limit is when Late is the answer to one that still waits for its turn; zero: never.
	Limit time.Time
	Late  error

	// Waited is how long Enter waited for the steps before.
	Waited time.Duration
}

// wait waits for a channel.
func (a *Ask) wait(ctx context.Context, turn <-chan struct{}) error {
	select {
	case <-turn: // mostly
		return nil
	default:
	}
	defer func(began time.Time) { a.Waited += time.Since(began) }(time.Now())
	var late <-chan time.Time
	if !a.Limit.IsZero() {
		late = time.After(time.Until(a.Limit))
	}
	select {
	case <-turn:
		return nil
	case <-late:
		return a.Late
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Enter waits for the turn of a step, until ctx ends. Leave must follow. The turn is nil, without an error, for a
// request that brings its whole state, of an episode that is not there: it needs none. The error is a *LostError, a
// *StaleError, a *FullError, a *tensor.FieldError or the cause of ctx.
func (s *Store) Enter(ctx context.Context, a *Ask) (*Turn, error) {
	// One that brings its state has no need of an episode, and waits for none that is not there.
	if a.After != nil && (a.Begin || !a.Brought || a.AfterBegin || s.has(a.Key)) {
		if err := a.wait(ctx, a.After); err != nil {
			return nil, err
		}
	}
	for {
		e, began, err := s.find(a)
		switch {
		case err != nil:
			return nil, err
		case e == nil:
			return nil, nil
		case began:
			return &Turn{store: s, of: e, ask: *a, Fresh: true}, nil
		}
		if err := a.wait(ctx, e.turn); err != nil {
			return nil, err
		}
		t := &Turn{store: s, of: e, ask: *a}
		again, err := t.take()
		if err == nil && !again {
			return t, nil
		}
		if t.release(); err != nil {
			return nil, err
		}
	}
}

func (s *Store) has(k Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[k] != nil
}

// find returns the episode that is asked, and reports whether it begins with this step. Nil: there is none, and need be
// none.
func (s *Store) find(a *Ask) (e *session, began bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.all[a.Key]; e != nil {
		return e, false, nil
	}
	switch {
	case !a.Begin && a.Brought:
		return nil, false, nil
	case !a.Begin:
		return nil, false, &LostError{Key: a.Key}
	}
	state := a.Version.EpisodeState
	if n := s.lives[a.Model]; n >= state.MaxEpisodes {
		return nil, false, &FullError{Key: a.Key, Episodes: n}
	}
	need := first(a.Version, a.Rows) + overhead
	if !s.hasRoomLocked(need) {
		return nil, false, &FullError{Key: a.Key, Bytes: s.firmLocked(), Need: need, Memory: s.config.Memory}
	}
	s.begun++
	e = &session{
		key: a.Key, turn: make(chan struct{}, 1), number: s.begun, used: time.Now(), idle: state.Idle, held: need,
		beginning: true,
	}
	s.takeLocked(e, need)
	s.all[a.Key] = e
	s.lives[a.Model]++
	e.timer = time.AfterFunc(e.idle, func() { s.expire(e) })
	return e, true, nil
}

// hasRoomLocked reports whether so many bytes more may be taken. The states of shadows go for that, and then the
// answers of episodes that have ended.
func (s *Store) hasRoomLocked(need int64) bool {
	if s.firmLocked()+need > s.config.Memory {
		return false
	}
	for _, all := range s.shown {
		for _, e := range all {
			if s.bytes+need <= s.config.Memory {
				return true
			}
			s.dropLocked(e)
		}
	}
	for e := range s.over {
		if s.bytes+need <= s.config.Memory {
			return true
		}
		s.removeLocked(e, e.over)
	}
	return true
}

// firmLocked returns the bytes that nobody gives up for others. The caller holds mu.
func (s *Store) firmLocked() int64 { return s.bytes - s.spare - s.answers }

// removeLocked forgets an episode. The caller holds mu.
func (s *Store) removeLocked(e *session, why End) {
	if e.gone {
		return
	}
	s.endLocked(e, why)
	s.answers -= e.held
	s.takeLocked(e, -e.held)
	e.gone, e.answer, e.held = true, nil, 0
	e.timer.Stop()
	delete(s.all, e.key)
	delete(s.over, e)
}

// endLocked ends an episode, whose latest answer is kept. The caller holds mu.
func (s *Store) endLocked(e *session, why End) {
	if e.over != "" || e.gone {
		return
	}
	if s.lives[e.key.Model]--; s.lives[e.key.Model] == 0 {
		delete(s.lives, e.key.Model)
	}
	e.over, e.state, e.stream = why, nil, nil
	s.over[e] = struct{}{}
	if e.answered {
		s.ended[Ending{e.key.Model, why}]++
	}
	s.accountLocked(e)
	s.answers += e.held
	s.stopAllLocked(e.key)
}

// accountLocked counts what an episode holds now, and finds it by its stream. The caller holds mu.
func (s *Store) accountLocked(e *session) {
	now := e.bytes()
	s.takeLocked(e, now-e.held)
	e.held = now
	if e.in == e.stream {
		return
	}
	if delete(s.bound[e.in], e); len(s.bound[e.in]) == 0 {
		delete(s.bound, e.in)
	}
	if e.in = e.stream; e.in == nil {
		return
	}
	if s.bound[e.in] == nil {
		s.bound[e.in] = set{}
	}
	s.bound[e.in][e] = struct{}{}
}

// takeLocked counts bytes that an episode takes. The caller holds mu.
func (s *Store) takeLocked(e *session, n int64) {
	if n == 0 {
		return // mostly
	}
	s.bytes += n
	if s.of[e.key.Model] += n; s.of[e.key.Model] == 0 {
		delete(s.of, e.key.Model)
	}
}

// expire ends an episode if it is idle. One whose step is under way is not.
func (s *Store) expire(e *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := e.idle - time.Since(e.used); e.gone || left > 0 {
		if !e.gone {
			e.timer.Reset(left)
		}
		return
	}
	select {
	case <-e.turn:
		s.removeLocked(e, Idle)
		e.turn <- struct{}{} // who waits finds it gone
	default:
		e.timer.Reset(e.idle)
	}
}

// End ends an episode. A step of it that is under way leaves nothing, but for one that begins it.
func (s *Store) End(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.all[k]; e != nil {
		s.finishLocked(e, ByRequest)
	}
	s.stopAllLocked(k) // another version may have answered, which keeps nothing
}

// EndStream ends the episodes that are to end with a stream.
func (s *Store) EndStream(stream any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.bound[stream] {
		s.finishLocked(e, WithStream)
	}
}

// finishLocked ends an episode. Its latest answer is kept, since a retry may come. A step that begins the next one of
// its name goes on. The caller holds mu.
func (s *Store) finishLocked(e *session, why End) {
	if e.beginning && e.over == "" {
		if e.answered {
			s.ended[Ending{e.key.Model, why}]++
		}
		e.past = past{}
		s.accountLocked(e)
		return
	}
	if s.endLocked(e, why); e.answer == nil {
		s.removeLocked(e, why)
	}
}

// Counts is what there is, and was, of all models.
type Counts struct {
	Live  map[string]int // episodes whose state is kept, by model
	Bytes int64          // that states, and answers kept for retries, take
	Spare int64          // those of Bytes that are states of shadows, which give their room to episodes of callers
	Ended map[Ending]uint64
}

// Ending is how episodes of a model ended.
type Ending struct {
	Model string
	Why   End
}

// Counts returns the counts of this moment.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{maps.Clone(s.lives), s.bytes, s.spare, maps.Clone(s.ended)}
}

// Of returns how many episodes of a model there are, and the bytes that they and their kept answers take.
func (s *Store) Of(model string) (live int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives[model], s.of[model]
}
