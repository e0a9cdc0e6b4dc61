package host

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/sharedsched"
)

// version is what is resident of a model under a number, on one device or several.
type version struct {
	id     int64 // of the resident that it is
	model  string
	number int64
	from   residency.Candidate // what it was loaded from, with the manifest that the proof was made with
	ready  atomic.Bool         // takes requests

	// demoted is why it is out of batching although it was found fit for it; nil while it is not. It is written with
	// tuning held.
	demoted atomic.Pointer[string]
	tuning  sync.Mutex // held while the settings and the plan of a replica change
	// guarded by tuning: of those in the scheduler, what they are to have if it is not demoted
	tuned map[*replica]sharedsched.Settings

	proofs atomic.Int64 // how often it was proven anew while it served

	audit    audit
	replicas atomic.Pointer[[]*replica] // replaced, never changed, with Host.mu held
	sessions atomic.Int32               // that are open

	wait *residency.Wait // for a better device, as it was placed; of no use once it is published

	graphs graphCounts // guarded by Host.mu once the version is published
}

// newVersion returns what is to be loaded, by the number that residency gave it.
func newVersion(c residency.Candidate, id int64) *version {
	v := &version{id: id, model: c.Model, number: c.Version.Number, from: c}
	v.audit.first, v.audit.rng = auditFirst, rand.New(rand.NewPCG(2, uint64(v.number)))
	return v
}
