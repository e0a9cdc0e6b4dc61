package execution

import (
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Plan is how a unit's requests become executions. It is immutable.
type Plan struct {
	Signature *tensor.Signature
	// Batched: rows of different requests may share an execution.
	Batched bool
	// Trims are the output dimensions that are cut back to the length of an input; none where inputs are not padded.
	Trims []tensor.Trim
	// Allowed are the sizes that an execution may have, ascending; empty: any. Most is the largest.
	Allowed []int
	Most    int
	// Budget is the device time that one execution may take; 0: no bound.
	Budget time.Duration
	Watch  Watch
	// Copied: the engine is to write no output in place, so that an audit does not repeat a mistake that was made there.
	Copied bool
	// Values are those of the inputs without rows, and the sizes of open dimensions, that are proven, or may be; nil
	// where none has to be.
	Values *Values

	shapeKey int   // the length of Signature.ShapeKey, which is the same for every request
	before   *Plan // the plan before the unit was taken out of batching; nil if it was not
}

// Watch is how closely audits look at the executions of a plan.
type Watch struct {
	// Share is the part of the device time of executions in which their rows are run once more and compared.
	Share float64
	// Trusted: findings are reported, and the plan stays as it is.
	Trusted bool
}

// NewPlan returns a plan by which each request is an execution of its own. The caller sets its other fields.
func NewPlan(s *tensor.Signature, budget time.Duration) *Plan {
	p := &Plan{Signature: s, Budget: budget}
	for _, in := range s.Inputs {
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim {
				// Signature.ShapeKey has eight bytes for each open size.
				p.shapeKey += 8
			}
		}
	}
	return p
}

// Unjoined returns the plan of requests that run by themselves, as they came; s is the signature without padding.
func (p *Plan) Unjoined(s *tensor.Signature) *Plan { return &Plan{Signature: s, shapeKey: p.shapeKey} }

// Dissolved returns the plan of a unit that is taken out of batching: each request is an execution of its own. Batches
// that were formed before still follow the first plan. s is the signature without padding.
func (p *Plan) Dissolved(s *tensor.Signature) *Plan {
	return &Plan{Signature: s, Budget: p.Budget, shapeKey: p.shapeKey, before: p}
}

// Whole returns the plan from before the unit was taken out of batching, or p itself if it was not.
func (p *Plan) Whole() *Plan {
	if p.before != nil {
		return p.before
	}
	return p
}

// Padded returns the size of an execution of so many rows: the next allowed size, or the rows themselves.
func (p *Plan) Padded(rows int) int {
	if i, _ := slices.BinarySearch(p.Allowed, rows); p.Batched && i < len(p.Allowed) {
		return p.Allowed[i]
	}
	return rows
}

// Keys returns the key under which requests with these inputs may share an execution, and its part that decides the
// cost. A model whose only open dimension is the batch has empty keys, which take no memory.
func (p *Plan) Keys(inputs []tensor.Tensor) (key, shapeKey string) {
	// Keys of most models fit, and are built without an allocation.
	var room [128]byte
	if !p.Batched {
		// Requests run one by one, whatever their values: one queue per shape is enough.
		shapeKey = string(p.Signature.ShapeKey(room[:0], inputs))
		return shapeKey, shapeKey
	}
	key = string(p.Signature.Key(room[:0], inputs))
	// Signature.Key begins with the sizes of open dimensions.
	return key, key[:p.shapeKey]
}

// Brought returns the inputs by which requests bring values that must be proven.
func (p *Plan) Brought() []tensor.Spec {
	return slices.DeleteFunc(slices.Clone(p.Signature.Inputs), func(in tensor.Spec) bool { return !hasValues(in) })
}

// Joined reports whether a call was run in a form that a batch has: with other requests, padded, or split. Its answer
// may then differ from that of the request alone.
func (p *Plan) Joined(call *catalog.Call) bool {
	o := &call.Outcome
	return p.Batched && call.Rows > 0 && len(call.Inputs) == len(p.Signature.Inputs) &&
		(o.BatchRequests > 1 || o.PaddedRows > 0 || o.Executions > 1 || p.pads(call.Inputs))
}

// pads reports whether the plan pads a length of these inputs.
func (p *Plan) pads(inputs []tensor.Tensor) bool {
	for i := range inputs {
		if padding, is := p.Signature.Inputs[i].Padding(inputs[i].Shape); is &&
			padding.Size != inputs[i].Shape[padding.Dim] {
			return true
		}
	}
	return false
}

// during returns the plan that an execution of these spans follows. A batch that was formed before the unit was taken
// out of batching follows the earlier plan, and so does the rest of a request that was split by it.
func (p *Plan) during(spans []sharedsched.Span) *Plan {
	first := spans[0].Payload.(*Job)
	switch {
	case first.Plan != nil:
		return first.Plan
	case p.before != nil && (len(spans) > 1 || spans[0].Rows < first.Rows):
		return p.before
	}
	return p
}
