package serving

import (
	"context"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/sharedsched"
)

// valueRows is how many rows of a request take part in the proof of the value that it brought, and valueProofBytes
// the most bytes of one.
const (
	valueRows       = 4
	valueProofBytes = 16 << 20
)

// proveFirst reports whether a request's values, its key, are proven, so that it may share executions and be split. If
// not, it may start their proof in the background. It never waits.
func (r *Replica) proveFirst(p *execution.Plan, j *execution.Job) (proven bool) {
	key := j.Task.Key
	proven, prove := p.Values.Ask(key, j.Task.Priority != sharedsched.Sheddable) // which is to delay nobody
	if prove {
		r.startValueProof(p, key, j)
	}
	return proven
}

// startValueProof proves a value in the background, with copies of rows that came with it: the request may end before.
// Values.Ask has said that the proof is due, and Settle follows in any case.
func (r *Replica) startValueProof(p *execution.Plan, key string, j *execution.Job) {
	sets := proof.CopyRows(p.Signature, j.Inputs, min(j.Rows, valueRows))
	// If the copies are too large, or the server stops, the value stays unproven.
	if proof.BytesOf(sets[0]) > valueProofBytes || !r.shared.Owner.Go(func(ctx context.Context) {
		defer r.shared.proving.hold(ctx)()
		c := proof.Value{
			Signature: p.Signature, Trims: p.Trims, Allowed: p.Allowed, Most: p.Most, Budget: p.Budget,
			Tolerance: r.verdict.Tolerance, Brought: p.Brought(),
		}
		found := c.Prove(ctx, newRunner(r), r.Number, sets)
		if found.Wrong != "" {
			r.Demote(found.Wrong)
		}
		p.Values.Settle(key, found.Shown && found.Wrong == "", found.Spent)
	}) {
		p.Values.Settle(key, false, 0)
	}
}
