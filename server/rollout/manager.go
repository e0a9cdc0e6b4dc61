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
	// Agreement returns how many shadowed requests of a version were compared, and how many of them agreed, since the
	// server started. Nil: none.
	Agreement func(model string, shadow int64) (agreed, done int64)
	// Began returns when an episode's first request came, if that is still known. An outcome then counts for the stage
	// in which its episode began, and not at all if that was before the rollout. Else it counts for the stage in which
	// it is reported; a new version is then judged by its short episodes first, as they are the first to be reported.
	Began func(model, episode string) (time.Time, bool)
	// Unfinished returns, by version, the beginnings of those episodes of a model that began at since or later and may
	// still be reported. Outcomes then wait until episodes that began before theirs are finished, but for one in twenty
	// of each version's and for those that began ten minutes ago. Otherwise episodes that end early count first, which
	// speaks against a version that keeps its episodes alive for longer. Nil: they count at once.
	Unfinished func(model string, since time.Time) map[int64][]time.Time
	// Kept are rollouts that an earlier process kept, by model.
	Kept   map[string]Kept
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default
}

// Manager holds the outcomes of all versions and the latest rollout of each model. It is safe for concurrent use. The
// part of a rollout that Config.Traffic keeps outlives the process.
//
// Lock order: changing, mu, then counter.mu or begunMu. Config.Traffic and Config.Agreement may be called with
// changing held, never with mu.
type Manager struct {
	config Config
	seed   maphash.Seed

	// changing is held from the look at the evidence to the end of the change of traffic.
	changing sync.Mutex

	mu      sync.Mutex
	runs    map[string]*run     // by model; written with changing held too
	windows map[version]*window // versions that are not in the snapshot any more are removed by look

	begunMu sync.Mutex
	begun   []beginning // of the running rollouts' versions, since the last look; guarded by begunMu

	// counters of the running rollouts' versions, for Observe. The map is immutable.
	counters atomic.Pointer[map[version]*counter]
}

// version names one version.
type version struct {
	model  string
	number int64
}

// New returns a Manager. Nothing happens by itself until Run.
func New(c Config) *Manager {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Agreement == nil {
		c.Agreement = func(string, int64) (int64, int64) { return 0, 0 }
	}
	if c.Began == nil {
		c.Began = func(string, string) (time.Time, bool) { return time.Time{}, false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	m := &Manager{config: c, seed: maphash.MakeSeed(), runs: map[string]*run{}, windows: map[version]*window{}}
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

// Observe counts a request that came to a version. It costs next to nothing for versions without a running rollout.
func (m *Manager) Observe(model string, number int64, e Ending) {
	if c := (*m.counters.Load())[version{model, number}]; c != nil {
		c.observe(e)
	}
}
