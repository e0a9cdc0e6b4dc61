package host

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/host/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// version is what is resident of a model under a number, on one device or several.
type version struct {
	model  string
	number int64
	from   candidate   // what it was loaded from, with the manifest that the proof was made with
	ready  atomic.Bool // takes requests

	// demoted is why it is out of batching although it was found fit for it; nil while it is not. It is written with tuning held.
	demoted atomic.Pointer[string]
	tuning  sync.Mutex                        // held while the settings and the plan of a replica change
	tuned   map[*replica]sharedsched.Settings // guarded by tuning: of those in the scheduler, what they are to have if it is not demoted

	proofs atomic.Int64 // how often it was proven anew while it served

	audit    audit
	replicas atomic.Pointer[[]*replica] // replaced, never changed, with Host.mu held
	sessions atomic.Int32               // that are open

	// What follows is guarded by Host.mu once the version is published.

	settings *modelrepo.Manifest // that it follows now
	proven   *modelrepo.Manifest // that its proof was made for
	reload   bool                // it cannot follow its manifest otherwise
	auto     int                 // how many replicas the load asks for
	scaler   placement.Scaler    // decides that
	// scarce says why there is no further replica although one is wanted, "" if nothing is in the way; until is when it is tried again,
	// and noted what the log says of it.
	scarce, noted string
	until         time.Time
	lesser        lesser // of its device
	graphs        graphCounts
}

// newVersion returns what is to be loaded. before is what it takes the place of, or nil. The caller holds Host.mu.
func newVersion(c candidate, before *version) *version {
	v := &version{model: c.model, number: c.version.Number, from: c, settings: c.manifest, proven: c.manifest, auto: 1}
	v.audit.first, v.audit.rng = auditFirst, rand.New(rand.NewPCG(2, uint64(v.number)))
	if before != nil {
		v.auto = before.auto
	}
	return v
}

// wants returns how many replicas there are to be.
func (v *version) wants() int {
	if v.settings.Replicas == modelrepo.AutoReplicas {
		return v.auto
	}
	return max(1, int(v.settings.Replicas))
}
