package host

import (
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// A version whose rows turn out not to be independent is demoted: taken out of batching, on all its devices, until it
// is loaded anew or its manifest asks for other batches.

// demote takes a replica's version out of batching, once; why is a sentence for the log and the metadata, with the
// numbers. When it returns, no further batch of more than one request of the version is formed, and it is not audited
// any more. Batches in flight end as they began, and a request of which some rows were run is completed in one more
// execution. What is found of a replica after its version was proven anew does nothing. It may be called from a batch
// thread: what is published follows soon.
func (h *Host) demote(r *replica, why string) {
	v := r.version
	v.tuning.Lock()
	if r.proof != v.proofs.Load() || !v.demoted.CompareAndSwap(nil, &why) {
		v.tuning.Unlock()
		return
	}
	left := v.audit.end(h)
	for r, settings := range v.tuned {
		// One that is being removed needs no settings any more.
		_ = h.tuneLocked(r, r.unit.Plan(), settings)
	}
	v.tuning.Unlock()
	h.tellAudit(v, AuditBudget, left)
	h.log.Warn("a model version is taken out of batching", "model", v.model, "version", v.number, "why", why)
	h.inBackground(func() { h.publishVerdict(v) })
}

// remark publishes one more remark on a version that stays as it is.
func (h *Host) remark(v *version, text string) {
	if before := v.audit.held.Load(); before != nil {
		text = *before + "; " + text
	}
	v.audit.held.Store(&text)
	h.inBackground(func() { h.publishVerdict(v) })
}

// publishVerdict publishes how a version is served, and why, after that has changed.
func (h *Host) publishVerdict(v *version) {
	h.step(residency.Judged{Model: v.model, Number: v.number, Resident: v.id, Demoted: v.demoted.Load()})
}

// tune has a replica's next batches formed by settings and run by the plan, unless its version is demoted: then it runs
// requests one by one.
func (h *Host) tune(r *replica, p *execution.Plan, s sharedsched.Settings) error {
	r.tuning.Lock()
	defer r.tuning.Unlock()
	return h.tuneLocked(r, p, s)
}

func (h *Host) tuneLocked(r *replica, p *execution.Plan, s sharedsched.Settings) error {
	if r.tuned == nil {
		r.tuned = map[*replica]sharedsched.Settings{}
	}
	r.tuned[r] = s
	if r.demoted.Load() != nil && s.Batched {
		s.Batched, s.MaxBatchSize, s.MaxRequestRows, s.AllowedBatchSizes = false, 1, 0, nil
		p = p.Dissolved(r.bare)
	}
	// The settings first: requests with the keys of a plan that joins none must not be joined.
	if err := h.sched.Configure(r.id, s); err != nil {
		return err
	}
	r.unit.Follow(p)
	if p.Watch.Share == 0 {
		h.give(r.audit.kept.Swap(nil))
	}
	return nil
}

// untune forgets a replica that is out of the scheduler.
func (r *replica) untune() {
	r.tuning.Lock()
	defer r.tuning.Unlock()
	delete(r.tuned, r)
}

// judged is how the replica serves under a manifest whose sizes were proven.
func (r *replica) judged(m *modelrepo.Manifest) proof.Verdict {
	v := r.verdict.Under(&m.Batching)
	if why := r.demoted.Load(); why != nil && v.Batched {
		return proof.Verdict{
			Proof: catalog.ProofNone, Obstacle: v.Obstacle, Reason: "taken out of batching: " + *why,
			Difference: v.Difference,
		}
	}
	if remark := r.audit.held.Load(); remark != nil {
		v.Reason += "; " + *remark
	}
	return v
}

// shown is the signature to publish.
func (r *replica) shown() *tensor.Signature {
	if r.demoted.Load() != nil {
		return r.bare
	}
	return r.signature
}

// unjoined is the plan of requests that run by themselves, as they came.
func (r *replica) unjoined() *execution.Plan { return r.unit.Plan().Unjoined(r.bare) }
