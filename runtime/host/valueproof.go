package host

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// valueRows is how many rows of a request take part in the proof of the value that it brought, and valueProofBytes the most bytes of one.
const (
	valueRows       = 4
	valueProofBytes = trialBytes / 16
)

// proveFirst reports whether what a request brought, its key, is proven, so that it may share executions and be split. If not, it starts
// the proof if it is time for it.
func (h *Host) proveFirst(r *replica, p *execution.Plan, j *execution.Job) (proven bool) {
	key := j.Task.Key
	proven, prove := p.Values.Ask(key, j.Task.Priority != sharedsched.Sheddable) // which is to delay nobody
	if prove {
		h.startValueProof(r, p, key, j)
	}
	return proven
}

// startValueProof proves a value in the background, with copies of rows that came with it. The caller was told to prove it.
func (h *Host) startValueProof(r *replica, p *execution.Plan, key string, j *execution.Job) {
	sets := copyRows(p.Signature, j.Inputs, min(j.Rows, valueRows))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || bytesOf(sets[0]) > valueProofBytes {
		p.Values.Settle(key, false, 0)
		return
	}
	h.loads.Go(func() {
		t := h.newValueTrial(r, p)
		select {
		case h.proving <- struct{}{}:
			defer func() { <-h.proving }()
		case <-h.stop.Done():
		}
		wrong, shown := t.value(h.stop, p, sets)
		if wrong != "" {
			h.demote(r, wrong)
		}
		p.Values.Settle(key, shown && wrong == "", t.spent)
	})
}

// copyRows returns the first rows of a request, one by one, in memory of their own.
func copyRows(s *tensor.Signature, inputs []tensor.Tensor, n int) [][]tensor.Tensor {
	sets := make([][]tensor.Tensor, n)
	for k := range sets {
		sets[k] = make([]tensor.Tensor, len(inputs))
		for i := range inputs {
			switch dim := s.Inputs[i].BatchDim; {
			case dim != tensor.NoBatch:
				sets[k][i] = tensor.RowRange{Tensor: inputs[i], First: k, Rows: 1}.Copy(dim)
			case k == 0:
				sets[k][i] = inputs[i].Clone()
			default:
				sets[k][i] = sets[0][i]
			}
		}
	}
	return sets
}

// newValueTrial returns a trial of values that requests to a plan bring. Its rows run alone as such requests do.
func (h *Host) newValueTrial(r *replica, p *execution.Plan) *trial {
	return &trial{
		host: h, replica: r, decision: &decision{signature: p.Signature, trims: p.Trims},
		batching: &modelrepo.Batching{Tolerance: r.verdict.tolerance, AllowedBatchSizes: p.Allowed},
		rng:      rand.New(rand.NewPCG(2, uint64(r.number))), unit: 1, unjoined: r.unjoined(),
	}
}

// value compares what rows of a request give alone with what they give in batches, beside each other and made-up rows, all with the
// request's value of the inputs without rows. shown reports whether that showed something; wrong is what speaks against batching.
func (t *trial) value(ctx context.Context, p *execution.Plan, sets [][]tensor.Tensor) (wrong string, shown bool) {
	b := &baseline{unit: t.unit}
	came, _, err := t.add(ctx, b, sets, 0)
	if err != nil || came == 0 {
		return "", false
	}
	like := b.some(came)
	for n := range kinds {
		made := kinds[n].rows(like, p.Signature, t.rng)
		if !kinds[n].live || len(made) == 0 {
			continue
		}
		if _, _, err := t.add(ctx, b, made[:1], n+1); err != nil {
			return "", false
		}
	}
	if !differ(b.sets) {
		return "", false
	}
	brought := slices.DeleteFunc(slices.Clone(p.Signature.Inputs), func(in tensor.Spec) bool { return !execution.HasValues(in) })
	all := len(b.sets)
	most := p.Most
	if most == 1 {
		most = 3 // rows that are to be run one by one are independent if those of small batches are
	}
	if p.Budget > 0 { // nor do requests get larger batches, about
		most = min(most, max(3, int(p.Budget/max(1, t.spent/time.Duration(all)))))
	}
	batches := [][]int{
		t.mix(2, 0, 0, came), t.mix(min(3, most), 0, 0, all), t.mix(2, 0, came-1, all), t.mix(most, 0, 0, all), t.mix(most, 0, 0, came),
	}
	f, err := t.batches(ctx, b, batches, most, "what a request brought for "+names(brought))
	switch {
	case err != nil:
		return "", false
	case f.wrong != "":
		return f.wrong, true
	case t.rounding.most > 0:
		return t.rounding.advice(), true
	}
	return "", !f.less && tells(b.outputs)
}

// tells reports whether an element of an output differs from row to row: rows that are answered alike show nothing. Not every output must
// vary, since a value may switch one off, and requests with it would never be joined.
func tells(answers [][]tensor.Tensor) bool {
	for o := range answers[0] {
		rows := make([]tensor.Tensor, len(answers))
		for k := range rows {
			rows[k] = answers[k][o]
		}
		if varied, _ := varying(rows); varied > 0 {
			return true
		}
	}
	return false
}
