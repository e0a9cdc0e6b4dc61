package routing

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Health knows whether a version is fit to take new work.
type Health interface {
	// Allow is asked once for each new episode and each request without one, where another version could stand in. It
	// is called from many goroutines and must not block. A version that it allowed need not be used.
	Allow(model string, version int64) bool
	// Fit reports whether a version takes all new work, without asking for any.
	Fit(model string, version int64) bool
}

// Config holds the settings of a Router. Zero values are defaults.
type Config struct {
	// MaxEpisodes bounds the running and lately ended episodes that are remembered, of all models together; 0: 100,000,
	// which with ids of 36 bytes take 29 MB. Beyond it the ended and then the longest silent are forgotten. Too low: an
	// episode forgotten while it runs goes where its hash leads, which is another version if weights changed since.
	MaxEpisodes int
	// EpisodeTTL is how long an episode is remembered after its last request; 0: 10 minutes. Too low: as above, for
	// episodes with pauses. Too high: robots that vanished keep old versions from being idle.
	EpisodeTTL time.Duration
	// Health is asked about versions for new work; nil: all are fit.
	Health Health
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Request is the part of a request that routing needs.
type Request struct {
	Model  string
	Choice Choice
	// Episode and RequestID are empty where the client gave none.
	Episode, RequestID string
	// Serial is any number that belongs to the request alone, which decides where one without an episode goes. It stands
	// for the id of a request that has none.
	Serial uint64
}

// Route is the outcome of routing.
type Route struct {
	// Version is ready.
	Version *catalog.Version
	// Slot names the traffic entry that led here. It is empty when the request chose the version or label itself. A
	// running episode keeps the name that it began with.
	Slot string
	// Table is the hash of the model's table that led here; "" where Slot is. The package comment has its form.
	Table string
	// Degraded: the model's traffic is split but the request named no episode to stay with a version.
	Degraded bool
	// FailedOverFrom is the version that the split leads to where that was not ready or not fit and Version stood in;
	// else 0. A running episode keeps it to its end, since it stays with the version that stood in.
	FailedOverFrom int64
	// Shadows are the versions to be shown the request: ready, and never Version itself. Read only.
	Shadows []catalog.Shadow
	// Drawn: nothing but the weights and the hash decided. It is false also if they lead to one version while another
	// one that has a part could not have taken the request: what is left then is no fair draw.
	Drawn bool
	// Pinned: the episode was running, and Version is the one that it is on.
	Pinned bool
	// Left is the version that the episode was running on, where that is not ready any more; else 0.
	Left int64
	// Began is when the request's episode began with it; zero: it did not, or the request is of none. Draw is the number
	// that led it to its slot.
	Began time.Time
	Draw  uint64
}

// Router routes requests by the newest snapshot it has seen, and remembers the versions of running episodes. It is
// safe for concurrent use: a table is replaced whole and readers never wait for it, episodes are behind many short
// locks.
type Router struct {
	config   Config
	start    time.Time
	episodes *episodes
	current  atomic.Pointer[Table]
}

// NewRouter returns a router that has seen no snapshot.
func NewRouter(c Config) *Router {
	if c.MaxEpisodes <= 0 {
		c.MaxEpisodes = 100_000
	}
	if c.EpisodeTTL <= 0 {
		c.EpisodeTTL = 10 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Router{config: c, start: c.Now(), episodes: newEpisodes(c.MaxEpisodes, c.EpisodeTTL)}
}

// now is the time since the router was made, in which all times of episodes are.
func (r *Router) now() time.Duration { return r.config.Now().Sub(r.start) }

// Table returns the table of s, or of a newer snapshot if there was one. It builds a table only when s is news.
func (r *Router) Table(s *catalog.Snapshot) *Table {
	for {
		current := r.current.Load()
		if current != nil && (current.snapshot == s || current.snapshot.Revision > s.Revision) {
			return current
		}
		next := NewTable
		if current != nil {
			next = current.follow
		}
		if next := next(s); r.current.CompareAndSwap(current, next) {
			return next
		}
	}
}

// Route returns the version that answers a request. The error is a *NotFoundError, a *NotReadyError, a *TakenOutError,
// a *RolledBackError, a *FailedError or a *catalog.ElsewhereError.
//
// A request that names a version or a label gets it. Else a running episode stays with its version as long as that is
// ready; everything else goes where the weights and its hash lead, or to the next best that is ready and fit, or if
// none is fit to the best that is ready; to a slot without weight only where none that has some is ready. An episode
// runs from its first request on.
func (r *Router) Route(s *catalog.Snapshot, q Request) (Route, error) {
	if q.Choice != (Choice{}) {
		return r.Table(s).Resolve(q.Model, q.Choice)
	}
	for {
		// The pin before the table: then the table is at least as new as the one that the pin was made by, and a
		// version that is not ready in it is gone rather than still unknown.
		var was pin
		if q.Episode != "" {
			was = r.episodes.find(q.Model, q.Episode, r.now())
		}
		e, err := r.Table(s).entry(q.Model)
		if err != nil {
			return Route{}, err
		}
		if was != (pin{}) {
			if v := readyVersion(e.model, was.version); v != nil {
				return Route{
					Version: v, Slot: was.slot, Table: was.table, FailedOverFrom: was.failedOverFrom,
					Shadows: e.shadowsOf(&q, v.Number), Drawn: was.slot != "" && was.failedOverFrom == 0, Pinned: true,
				}, nil
			}
		}
		key := e.episodeKey(&q)
		answers, wanted := e.choose(key, r.config.Health)
		if answers == nil {
			return Route{}, e.noneReady()
		}
		route := Route{
			Version: answers.version, Slot: answers.slot, Table: e.name, Left: was.version,
			Degraded: q.Episode == "" && len(e.split) > 1,
		}
		if wanted.number != answers.number {
			route.FailedOverFrom = wanted.number
			route.Table += "+" + strconv.FormatInt(answers.number, 10)
		}
		route.Drawn = route.FailedOverFrom == 0 && e.split.fit(q.Model, r.config.Health)
		if q.Episode != "" {
			begun, now := pin{answers.number, answers.slot, route.Table, route.FailedOverFrom}, r.now()
			if !r.episodes.replace(e.model.Name, q.Episode, was, begun, now) {
				continue // another request of the episode was faster, and decides
			}
			route.Began, route.Draw = r.start.Add(now), key
		}
		route.Shadows = e.shadowsOf(&q, answers.number)
		return route, nil
	}
}

// End says that an episode's last request was answered: if more come, a new episode begins.
func (r *Router) End(model, episode string) {
	r.episodes.end(model, episode, false, r.now())
}

// Reported notes that somebody reported how an episode went, which ends it too.
func (r *Router) Reported(model, episode string) {
	r.episodes.end(model, episode, true, r.now())
}

// Episodes returns how many episodes are running.
func (r *Router) Episodes() int {
	return r.episodes.running(r.now())
}

// VersionOf returns the version of an episode that is running or ended lately: at most EpisodeTTL ago, and less if the
// table of episodes was full since.
func (r *Router) VersionOf(model, episode string) (int64, bool) {
	p := r.episodes.peek(model, episode, r.now())
	return p.version, p != (pin{})
}

// silent is the time after which an episode without requests counts as ended, and an ended one without a report counts
// as one that will get none.
const silent = 30 * time.Second

// Unfinished returns the episodes of a model that may still be reported. Episodes that nothing was heard of for half a
// minute do not count. It looks at all episodes: call it every second, not with every request.
func (r *Router) Unfinished(model string) []string {
	return r.episodes.unfinished(model, r.now()-silent)
}

// LastUse returns when an episode on a version was last heard of; zero: none is running there. It takes the same time
// however many there are.
func (r *Router) LastUse(model string, version int64) time.Time {
	last, used := r.episodes.lastUse(model, version, r.now())
	if !used {
		return time.Time{}
	}
	return r.start.Add(last)
}
