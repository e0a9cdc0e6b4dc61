package serving

import (
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/sharedsched"
)

// A version whose rows turn out not to be independent is demoted: taken out of batching, on all its devices, until
// other files take its place or its manifest asks for other batches. The owner keeps that by the digest of its files.

// Demote takes the replica's version out of batching, once; why is a sentence for the log and the metadata, with the
// numbers. When it returns, no further batch of more than one request of the version is formed, and the version is not
// audited any more. Batches in flight end as they began, and a request that had some rows run is completed in one more
// execution. A finding about a replica whose version was proven again since does nothing. Demote may be called from a
// batch thread: the published state follows soon.
func (r *Replica) Demote(why string) {
	v := r.Version
	v.tuning.Lock()
	if r.proof != v.proofs.Load() || !v.demoted.CompareAndSwap(nil, &why) {
		v.tuning.Unlock()
		return
	}
	// Audits would find the same again.
	tell := v.audit.End()
	for r, settings := range v.tuned {
		// One that is being removed needs no settings any more.
		_ = r.tuneLocked(r.unit.Plan(), settings)
	}
	v.tuning.Unlock()
	tell()
	v.shared.Log.Warn("version taken out of batching", "event", "version_demoted",
		"model", v.Model, "version", v.Number, "cause", why)
	v.shared.Owner.Judged(v)
}

// tune makes a replica's next batches follow the settings and the plan. While its version is demoted, they run requests
// one by one, and the settings are remembered for the end of the demotion.
func (r *Replica) tune(p *execution.Plan, s sharedsched.Settings) error {
	r.tuning.Lock()
	defer r.tuning.Unlock()
	return r.tuneLocked(p, s)
}

// tuneLocked is tune for a caller that holds Version.tuning.
func (r *Replica) tuneLocked(p *execution.Plan, s sharedsched.Settings) error {
	if r.tuned == nil {
		r.tuned = map[*Replica]sharedsched.Settings{}
	}
	r.tuned[r] = s
	if r.demoted.Load() != nil && s.Batched {
		// Requests may have any number of rows again: they run as they came.
		s.Batched, s.MaxBatchSize, s.MaxRequestRows, s.AllowedBatchSizes = false, 1, 0, nil
		p = p.Dissolved(r.bare)
	}
	// The settings first: requests with the keys of a plan that joins none must not be joined.
	if err := r.shared.sched.Configure(r.id, s); err != nil {
		return err
	}
	r.unit.Follow(p)
	if p.Watch.Share == 0 {
		r.audit.Drop()
	}
	return nil
}

// untune forgets the settings of a replica that is out of the scheduler.
func (r *Replica) untune() {
	r.tuning.Lock()
	defer r.tuning.Unlock()
	delete(r.tuned, r)
}

// judged returns how the replica serves under a manifest that its proof covers, with the reason as metadata show it.
func (r *Replica) judged(m *modelrepo.Manifest) proof.Verdict {
	v := r.verdict.Under(&m.Batching)
	if why := r.demoted.Load(); why != nil && v.Batched {
		return proof.Verdict{
			Proof: catalog.ProofNone, Obstacle: v.Obstacle, Reason: "taken out of batching: " + *why,
			Difference: v.Difference,
		}
	}
	if remarks := r.audit.Remarks(); remarks != "" {
		v.Reason += "; " + remarks
	}
	return v
}
