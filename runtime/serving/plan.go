package serving

import (
	"time"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// planOf returns how requests to a replica become executions, according to its proof's verdict and its manifest.
func planOf(s *tensor.Signature, v proof.Verdict, b *modelrepo.Batching) *execution.Plan {
	p := execution.NewPlan(s, time.Duration(b.MaxBatchCost))
	p.Batched, p.Allowed, p.Most = v.Batched, v.Allowed, v.Most
	p.Watch, p.Values = watchOf(b), valuesOf(s, v)
	return p
}

// valuesOf returns the parts of requests besides rows that are to be proven; nil where there are none.
func valuesOf(s *tensor.Signature, v proof.Verdict) *execution.Values {
	if !v.Batched || v.AnyValue {
		return nil
	}
	return execution.NewValues(s)
}

// watchOf returns how closely audits look at executions.
func watchOf(b *modelrepo.Batching) execution.Watch {
	return execution.Watch{Share: b.Audit, Trusted: b.Mode == modelrepo.BatchOn}
}
