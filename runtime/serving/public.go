package serving

import (
	"errors"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Describe writes the public description of a version that has a replica: its devices, its signature, and how requests
// are batched and audited under a manifest. The caller holds the owner's lock.
func (v *Version) Describe(public *catalog.Version, m *modelrepo.Manifest) {
	for _, r := range v.Replicas() {
		public.Replicas = append(public.Replicas, catalog.Replica{
			Device: r.Opened.Device, Provider: r.Opened.Provider, Scheduler: int32(r.id),
		})
	}
	first := public.Replicas[0]
	public.Device, public.Provider, public.Scheduler = first.Device, first.Provider, first.Scheduler
	r, b := v.Replicas()[0], &m.Batching
	if digest := v.copied.digest.Load(); digest != nil {
		public.Digest = *digest
	}
	public.Signature, public.Live, public.Stalled = r.shown(), v.live(), v.Stalled()
	if cause := r.first.crashed; cause != nil {
		public.RowCrashed = errors.Unwrap(cause).Error()
	}
	judged := r.judged(m)
	set := settings(m, judged)
	public.Batching = catalog.Batching{
		Batched: judged.Batched && judged.Most > 1, Reason: judged.Reason, Proof: judged.Proof,
		Obstacle: judged.Obstacle, MaxDifference: judged.Difference,
		MaxBatchSize: max(judged.Most, 1), AllowedBatchSizes: judged.Allowed,
		MaxRequestRows: requestRows(b, judged), MaxQueue: set.QueueBound(),
	}
	if compared, _ := v.audit.Counts(); public.Batching.Batched && b.Audit > 0 || compared > 0 {
		public.Batching.AuditShare = b.Audit
	}
}
