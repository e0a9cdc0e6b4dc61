package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weftserve/weft/internal/record"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Why steps of an episode are not sent.
const (
	retried    = "were retries of a step"
	failedStep = "failed when they were recorded" // they changed nothing, and would now
	begunOff   = "belong to episodes that began before the recording"
	afterLost  = "follow a step of their episode that is missing or failed now"
)

// episodes are those of the replay whose state a server keeps. Only the goroutine of run uses them.
type episodes struct {
	kept   []*weftv1.TensorSpec // the inputs that the target keeps; none: it keeps none, or does not tell
	prefix string               // of their names, so that they are nobody else's
	begun  int
	live   map[episodeKey]*episode
}

// episodeKey is the number that the recorded server gave an episode, or its name where that kept no state.
type episodeKey struct {
	number int64
	name   string
}

// episode has its steps sent one after the other.
type episode struct {
	name string // in the replay
	// Of the latest recorded step, for the goroutine of run: when it ended, its numbers, and whether one is missing.
	ended chan struct{}
	steps int64
	step  uint64
	gap   bool

	// The rest is for the step that is sent: its goroutine waits for that of the one before.
	number  uint64                 // of the latest step in the replay
	latest  *weftv1.PredictRequest // that was answered, of an episode that goes on
	failed  *weftv1.PredictRequest // after it; nil: none
	version int64                  // that answered
}

// turn is what is to be done with an entry.
type turn struct {
	of     *episode // nil: it is sent by itself
	unsent string   // why it is not sent
	begins bool
	ends   bool // no further step comes
	wait   <-chan struct{}
	ended  chan struct{}
}

// next says what is to be done with the next entry.
func (s *episodes) next(e *record.Entry) turn {
	q := e.Request
	key := episodeKey{number: e.State}
	switch {
	case e.State == 0 && (s.kept == nil || q.GetEpisodeId() == ""):
		return turn{}
	case e.Response == nil:
		return turn{unsent: failedStep}
	case e.State == 0:
		key.name = q.GetEpisodeId()
	}
	begins := e.Steps == 1 || e.State == 0 && q.GetBeginEpisode()
	of := s.live[key]
	again := e.State != 0 && e.Steps == 0 || of != nil && e.State == 0 && q.GetStep() > 0 &&
		(q.GetStep() == of.step || q.GetStep() < of.step && !begins)
	switch {
	case again:
		if of == nil || !q.GetEndOfEpisode() {
			return turn{unsent: retried}
		}
		delete(s.live, key)
		return of.turn(turn{unsent: retried, ends: true})
	case of == nil && !begins && !s.bringsAll(q):
		return turn{unsent: begunOff}
	case of == nil:
		s.begun++
		of = &episode{name: fmt.Sprintf("%s%d", s.prefix, s.begun)}
		if begins {
			s.live[key] = of
		}
	case begins:
		of.gap = false
	case e.State != 0 && e.Steps != of.steps+1:
		of.gap = true
	}
	of.steps, of.step = e.Steps, q.GetStep()
	t := turn{begins: begins, ends: q.GetEndOfEpisode()}
	if of.gap {
		t.unsent = afterLost
	}
	if t.ends {
		delete(s.live, key)
	}
	return of.turn(t)
}

// bringsAll reports whether a request brings all that the target keeps: it needs no step before it.
func (s *episodes) bringsAll(q *weftv1.PredictRequest) bool {
	return s.kept != nil && !slices.ContainsFunc(s.kept, func(spec *weftv1.TensorSpec) bool {
		in := q.GetInputs()[spec.GetName()]
		whole := slices.EqualFunc(in.GetShape(), spec.GetShape(), func(n, want int64) bool { return want < 0 || n == want })
		return in == nil || !whole // such as one value of a window
	})
}

// turn puts a step behind the latest one.
func (e *episode) turn(t turn) turn {
	t.of, t.wait, t.ended = e, e.ended, make(chan struct{})
	e.ended = t.ended
	return t
}

// step sends a step of an episode once the one before has ended.
func (r *sender) step(ctx context.Context, e *record.Entry, t turn, due time.Time) {
	defer close(t.ended)
	if t.wait != nil {
		<-t.wait
	}
	of := t.of
	if t.ends {
		defer r.end(context.WithoutCancel(ctx), of)
	}
	if t.begins {
		of.failed, of.version = nil, 0
	} else if t.unsent == "" && of.failed != nil {
		t.unsent = afterLost
	}
	switch {
	case ctx.Err() != nil:
		return
	case t.unsent != "":
		r.done(replayed{entry: e, unsent: t.unsent})
		return
	}
	// Numbers of its own let the replay end the episode by a retry, which runs nothing.
	q := e.Request
	of.number++
	q.EpisodeId, q.BeginEpisode, q.Step = of.name, t.begins, of.number
	r.sending(due)
	answer, err := r.send(ctx, e, of.version)
	if err != nil {
		of.failed = q
		return
	}
	of.version, of.latest = answer.GetModel().GetVersion(), q
	if q.GetEndOfEpisode() {
		of.latest = nil
	}
}

// endAll ends the episodes that the recording did not end. Each would take room until it has been idle for long enough.
func (r *sender) endAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, r.concurrency)
	for _, of := range r.episodes.live {
		slots <- struct{}{}
		wg.Go(func() {
			r.end(ctx, of)
			<-slots
		})
	}
}

// endTime bounds how long episodes take to end, also those of an interrupted replay.
const endTime = 5 * time.Second

// end ends an episode that goes on, by its latest step once more. One that failed here may have been done there.
func (r *sender) end(ctx context.Context, of *episode) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for _, q := range []*weftv1.PredictRequest{of.failed, of.latest} {
		if q == nil {
			continue
		}
		q.EndOfEpisode = true
		if _, err := r.predict(ctx, q); err == nil {
			return
		}
	}
}

// newPrefix returns what no other replay calls its episodes.
func newPrefix() string { return fmt.Sprintf("replay-%x-", rand.Uint64()) }
