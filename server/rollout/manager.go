// Package rollout leads a new version of a model through stages of growing traffic and judges it by the evidence there.
package rollout

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Traffic lets rollouts read which versions there are, and divide requests among them.
type Traffic interface {
	// Snapshot returns the latest state. It must not block.
	Snapshot() *catalog.Snapshot
	// Decide makes a decision about a model, as a whole or not at all, and returns its traffic with its new revision,
	// if that is divided again, which the next Snapshot shows. If Expected is not 0 and not the present revision it
	// changes nothing and returns an error.
	Decide(model string, d catalog.Decision) (*catalog.Traffic, error)
}

// Config holds the parts that a Manager works with. Only Traffic is required.
type Config struct {
	Traffic Traffic
	// Unfinished returns the episodes of a model that go on, or may still be reported. Nil: none.
	Unfinished func(model string) []string
	// Kept are rollouts that an earlier process kept, by model.
	Kept   map[string]Kept
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default
}

// Manager holds the latest rollout of each model. It is safe for concurrent use. The part of a rollout that
// Config.Traffic keeps outlives the process.
//
// Lock order: changing, mu, hearing. Config.Traffic may be called with changing held, never with mu.
type Manager struct {
	config Config
	seed   maphash.Seed

	// changing is held from the look at the evidence to the end of the change of traffic.
	changing sync.Mutex

	mu   sync.Mutex
	runs map[string]*run // by model; written with changing held too

	hearing sync.Mutex
	heard   []heard // since the last look; guarded by hearing

	// plans are those of the running rollouts, by model. The map is immutable.
	plans atomic.Pointer[map[string]*Plan]
}

// New returns a Manager. Nothing happens by itself until Run.
func New(c Config) *Manager {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Unfinished == nil {
		c.Unfinished = func(string) []string { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	m := &Manager{config: c, seed: maphash.MakeSeed(), runs: map[string]*run{}}
	m.recall(c.Kept)
	return m
}

// Run looks at the running rollouts once a second and moves the automatic ones, until ctx ends. The traffic then stays
// as it is.
func (m *Manager) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.look()
		}
	}
}

// Get returns the model's latest rollout, running or not.
func (m *Manager) Get(model string) (Rollout, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.runs[model]
	if !ok {
		return Rollout{}, false
	}
	return r.clone(), true
}

// Candidate is that of a model's latest rollout, and how that stands.
type Candidate struct {
	Model   string
	Version int64
	State   State
}

// Candidates returns those of all models.
func (m *Manager) Candidates() []Candidate {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Candidate
	for model, r := range m.runs {
		all = append(all, Candidate{model, r.CandidateVersion, r.State})
	}
	return all
}

// MaxOutcome is the largest magnitude of an outcome: sums and squares of them stay finite.
const MaxOutcome = 1e100

// Report takes in how an episode went: numbers by name, a success being 1 or 0. The numbers must be finite and within
// ±MaxOutcome. The one that a rollout decides by counts for it once the episodes that began before are over. Reported
// again by the same one, it replaces the former. tables are what its answers named, as far as known, and by is who
// reports it, "" where nobody is told apart. It returns whether the version is there.
func (m *Manager) Report(
	model, episode string, number int64, values map[string]float64, tables []string, by string,
) (there bool) {
	if known := m.config.Traffic.Snapshot().Model(model); known == nil || known.Version(number) == nil {
		return false
	}
	id, now := m.idOf(episode), m.config.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[model]
	if r == nil || r.State != Running {
		return true
	}
	side, is := r.side(number)
	if outcome, has := values[r.Gate.Outcome]; is && has {
		m.listenLocked()
		r.report(id, side, outcome, tables, by, now)
		r.fresh.Store(true)
	}
	return true
}
