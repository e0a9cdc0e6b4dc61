package host

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// valueRows is how many rows of a request take part in the proof of the value that it brought.
const valueRows = 4

// proveFirst has a request run alone as long as what it brought, its key, is not proven, and starts the proof if it is time for it.
func (h *Host) proveFirst(r *replica, p *plan, j *job) {
	key := j.task.Key
	proven, prove := p.values.ask(key)
	if proven {
		return
	}
	if prove {
		h.startValueProof(r, p, key, j)
	}
	t := &j.task
	if n := len(p.allowed); n > 0 && t.Rows > p.allowed[n-1] {
		// No execution may have so many rows. It is split, and shares no execution all the same, since no other request has its key.
		t.Key += strconv.FormatInt(p.values.serial.Add(1), 10)
		return
	}
	t.Alone = true
	t.Unmeasured = p.padded(t.Rows) != t.Rows // which is not what so many rows cost
}

// startValueProof proves a value in the background, with copies of rows that came with it. The caller was told to prove it.
func (h *Host) startValueProof(r *replica, p *plan, key string, j *job) {
	sets := copyRows(p.signature, j.inputs, min(j.rows, valueRows))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || bytesOf(sets[0]) > valueProofBytes {
		p.values.settle(key, false)
		return
	}
	h.loads.Go(func() {
		wrong, shown := h.proveValue(h.stop, r, p, sets)
		if wrong != "" {
			h.demote(r, wrong)
		}
		p.values.settle(key, shown && wrong == "")
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

// proveValue compares what rows of a request give alone with what they give in batches, beside each other and made-up rows, all with the
// request's value of the inputs without rows. shown reports whether that showed something; wrong is what speaks against batching.
func (h *Host) proveValue(ctx context.Context, r *replica, p *plan, sets [][]tensor.Tensor) (wrong string, shown bool) {
	batching := modelrepo.Batching{Tolerance: r.verdict.tolerance, AllowedBatchSizes: p.allowed}
	t := &trial{
		host: h, replica: r, decision: &decision{signature: p.signature, trims: p.trims}, batching: &batching,
		rng: rand.New(rand.NewPCG(2, uint64(r.number))), unit: p.padded(1),
	}
	b := &baseline{unit: t.unit}
	if p.most < 2 {
		return "", false
	}
	came, _, err := t.add(ctx, b, sets, 0)
	if err != nil || came == 0 {
		return "", false
	}
	like := b.some(came)
	for n := range kinds {
		made := kinds[n].rows(like, p.signature, t.rng)
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
	brought := slices.DeleteFunc(slices.Clone(p.signature.Inputs), func(in tensor.Spec) bool { return !hasValues(in) })
	all := len(b.sets)
	batches := [][]int{t.mix(2, 0, 0, came), t.mix(3, 0, 0, all), t.mix(2, 0, came-1, all), t.mix(p.most, 0, 0, all), t.mix(p.most, 0, 0, came)}
	f, err := t.batches(ctx, b, batches, p.most, "what a request brought for "+names(brought))
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

// tells reports whether an element of an output differs from row to row: rows that are answered alike show nothing.
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
