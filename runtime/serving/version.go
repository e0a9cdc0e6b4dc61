// Package serving holds the versions that answer requests: on which devices each of them runs, how its batches are
// proven and formed, and when it is taken out of batching. A Version has a Replica on each of its devices, which is a
// session, a plan of its executions, and a version of the scheduler by itself. Its Owner decides when it is loaded and
// when it goes.
//
// Locks: Version.tuning is held while the settings and the plan of a replica change, flows.mu while a flow is used or
// released; both across calls of the scheduler, which never calls back with its own lock held. An engine and the Owner
// are never called with either held.
package serving

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/sharedsched"
)

// Version is one version of a model that is loaded, on one device or several. Safe for concurrent use, except for the
// fields that its owner guards.
type Version struct {
	ID     int64 // of the resident in residency
	Model  string
	Number int64
	From   residency.Candidate // its source, with the manifest that the proof was made with
	Ready  atomic.Bool         // takes requests

	shared   *Shared
	crashing sync.Mutex
	crashes  catalog.Crashes // guarded by crashing; the proven ones
	// demoted is why it is out of batching although it was found fit for it; nil while it is not. It is written with
	// tuning held.
	demoted atomic.Pointer[string]
	tuning  sync.Mutex // held while the settings and the plan of a replica change
	// guarded by tuning: of those in the scheduler, the settings that they are to have if it is not demoted
	tuned map[*Replica]sharedsched.Settings

	proofs atomic.Int64 // how often it was proven again while it served
	// known says, by the digest of files, why a version of them is to be out of batching, as was found before.
	known map[string]string

	loading  loading
	copied   copied
	audit    *audit.Auditor
	replicas atomic.Pointer[[]*Replica] // replaced, never changed, with the owner's lock held
	sessions atomic.Int32               // that are open
	stages   atomic.Pointer[stages]     // of a staged pipeline; nil: it has not taken them, or has given them up
	holders  holders

	left leftCounts // guarded by the owner's lock once the version is published
}

// NewVersion returns a version that is going to be loaded; id is its number in residency. unbatched has digests of
// files that were found unfit for batches before, with the reasons: a version of such files is out of batching from the
// beginning.
func (s *Shared) NewVersion(c residency.Candidate, id int64, unbatched map[string]string) *Version {
	v := &Version{ID: id, Model: c.Model, Number: c.Version.Number, From: c, shared: s, known: unbatched}
	v.loading.begin()
	v.audit = audit.New(&s.audits, v.Model, v.Number, func() { s.Owner.Judged(v) })
	return v
}

// Demoted returns why the version is out of batching although it was found fit for it; nil while it is not.
func (v *Version) Demoted() *string { return v.demoted.Load() }

// Files returns the digest of the version's files, by which findings about it are kept. Where no files were read, it is
// the directory with a fingerprint.
func (v *Version) Files() string {
	if digest := v.copied.digest.Load(); digest != nil {
		return *digest
	}
	return v.From.Version.Dir + " " + v.From.Version.Fingerprint
}

// recall takes the version out of batching if its files, which were just read, were found unfit for it before. Once a
// replica serves, only later findings count.
func (v *Version) recall() {
	v.tuning.Lock()
	defer v.tuning.Unlock()
	if why, known := v.known[v.Files()]; known && len(v.Replicas()) == 0 {
		v.demoted.Store(&why)
	}
}

// Replicas returns the version's replicas, the first that was loaded first. The list is replaced and never changed, so
// that it is read without a lock; callers must not change it.
func (v *Version) Replicas() []*Replica {
	if all := v.replicas.Load(); all != nil {
		return *all
	}
	return nil
}

// On returns the version's replica on a device, or nil.
func (v *Version) On(d *fleet.Device) *Replica {
	for _, r := range v.Replicas() {
		if r.Device == d {
			return r
		}
	}
	return nil
}

// Change replaces the version's replicas. Counters of replicas that leave are kept. The caller holds the owner's lock,
// or the version is not published yet.
func (v *Version) Change(to []*Replica) {
	for _, r := range v.Replicas() {
		// A replica that was only moved shares its seats with the one in its place.
		if !slices.ContainsFunc(to, func(other *Replica) bool { return other.seats == r.seats }) {
			v.left.meters = append(v.left.meters, r.unit.Meter)
		}
	}
	v.replicas.Store(&to)
}

// Describe writes the public description of a version that has a replica: its devices, its signature, and how requests
// are batched and audited under a manifest. The caller holds the owner's lock.
func (v *Version) Describe(public *catalog.Version, m *modelrepo.Manifest) {
	for _, r := range v.Replicas() {
		public.Replicas = append(public.Replicas, catalog.Replica{
			Device: r.Opened.Device, Provider: r.Opened.Provider, Scheduler: int32(r.id),
		})
	}
	public.Resident = v
	// Readers that know of one device only see that of the first replica.
	first := public.Replicas[0]
	public.Device, public.Provider, public.Scheduler = first.Device, first.Provider, first.Scheduler
	r, b := v.Replicas()[0], &m.Batching
	if digest := v.copied.digest.Load(); digest != nil {
		public.Digest = *digest
	}
	public.Signature, public.Live, public.Stalled = r.shown(), v.live(), v.Stalled()
	public.EpisodeState = bounded(r.state, m.State)
	if cause := r.first.crashed; cause != nil {
		public.RowCrashed = errors.Unwrap(cause).Error()
	}
	judged := r.judged(m)
	set := settings(m, judged)
	// A batch of at most one row is none.
	public.Batching = catalog.Batching{
		Batched: judged.Batched && judged.Most > 1, Reason: judged.Reason, Proof: judged.Proof,
		Obstacle: judged.Obstacle, MaxDifference: judged.Difference,
		MaxBatchSize: max(judged.Most, 1), AllowedBatchSizes: judged.Allowed,
		MaxRequestRows: requestRows(b, judged), MaxQueue: set.QueueBound(),
	}
	if taken := v.stages.Load(); taken != nil {
		for _, s := range taken.steps { // 0: as many as come
			if most := s.public.Batching.MaxRequestRows; most > 0 {
				public.Batching.MaxRequestRows = min(cmp.Or(public.Batching.MaxRequestRows, most), most)
			}
		}
	}
	if compared, _ := v.audit.Counts(); public.Batching.Batched && b.Audit > 0 || compared > 0 {
		public.Batching.AuditShare = b.Audit
	}
}
