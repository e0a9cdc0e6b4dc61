package host

import (
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

// proveFirst reports whether what a request brought, its key, is proven, so that it may share executions and be split.
// If not, it starts the proof if it is time for it.
func (h *Host) proveFirst(r *replica, p *execution.Plan, j *execution.Job) (proven bool) {
	key := j.Task.Key
	proven, prove := p.Values.Ask(key, j.Task.Priority != sharedsched.Sheddable) // which is to delay nobody
	if prove {
		h.startValueProof(r, p, key, j)
	}
	return proven
}

// startValueProof proves a value in the background, with copies of rows that came with it. The caller was told to prove
// it.
func (h *Host) startValueProof(r *replica, p *execution.Plan, key string, j *execution.Job) {
	sets := proof.CopyRows(p.Signature, j.Inputs, min(j.Rows, valueRows))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || proof.BytesOf(sets[0]) > valueProofBytes {
		p.Values.Settle(key, false, 0)
		return
	}
	h.loads.Go(func() {
		c := proof.Value{
			Signature: p.Signature, Trims: p.Trims, Allowed: p.Allowed, Most: p.Most, Budget: p.Budget,
			Tolerance: r.verdict.Tolerance, Brought: p.Brought(),
		}
		select {
		case h.proving <- struct{}{}:
			defer func() { <-h.proving }()
		case <-h.stop.Done():
		}
		found := c.Prove(h.stop, newRunner(h, r), r.number, sets)
		if found.Wrong != "" {
			h.demote(r, found.Wrong)
		}
		p.Values.Settle(key, found.Shown && found.Wrong == "", found.Spent)
	})
}
