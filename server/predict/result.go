package predict

import (
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Place is the destination of a request, the zero value if it was not routed: an answer says it, and an error is about
// it.
type Place struct {
	Model   string
	Version int64
	// Slot names the entry of the model's traffic that led there; "" where the request itself chose the version or a
	// label.
	Slot string
	// Table is the hash of the traffic that led there, as routing.Route.Table; "" where Slot is.
	Table string
	// Degraded: the model's traffic is divided but the request named no episode to stay with a version.
	Degraded bool
	// FailedOverFrom is the version that another stood in for; 0: none did.
	FailedOverFrom int64
}

// Result is the result of a request that was answered.
type Result struct {
	Place
	// Repeated: the request was a retry of a step, and this is the answer that it had. Skipped is how many numbers of
	// steps were left out before it.
	Repeated bool
	Skipped  uint64
	// Message is the answer in its protocol's form, for a recorder that knows it. A codec may set it.
	Message any

	call *catalog.Call
}

// Outcome says how the request was executed.
func (r *Result) Outcome() *sharedsched.Outcome { return &r.call.Outcome }

// Outputs returns the requested outputs, in the order of the request: whole tensors, each with its entry in the
// signature.
func (r *Result) Outputs() iter.Seq2[*tensor.Spec, tensor.Tensor] {
	return func(yield func(*tensor.Spec, tensor.Tensor) bool) {
		for i, t := range r.call.Results {
			if !yield(wantedSpec(r.call, i), t) {
				return
			}
		}
	}
}

// Len returns how many outputs there are.
func (r *Result) Len() int { return len(r.call.Results) }

// wantedSpec returns the signature's entry for result i of a call.
func wantedSpec(call *catalog.Call, i int) *tensor.Spec {
	if call.Wanted != nil {
		i = call.Wanted[i]
	}
	return &call.Version.Signature.Outputs[i]
}

// checkResults refuses results that cannot be sent: they are the model's fault. The error is a *catalog.ModelError
// without mates, so that it counts as the version's (isFault).
func checkResults(call *catalog.Call) error {
	fault := func(err error) error {
		return &catalog.ModelError{Model: call.Version.Model, Version: call.Version.Number, Err: err}
	}
	wanted := len(call.Version.Signature.Outputs)
	if call.Wanted != nil {
		wanted = len(call.Wanted)
	}
	if len(call.Results) != wanted {
		return fault(fmt.Errorf("the model gave %d outputs, %d were asked for", len(call.Results), wanted))
	}
	for i := range call.Results {
		spec := wantedSpec(call, i)
		if !utf8.ValidString(spec.Name) {
			// No message could carry it, and on a stream the attempt would end it for everybody.
			const why = "output %q: its name is not UTF-8, which the API requires: rename it in the model"
			return fault(fmt.Errorf(why, spec.Name))
		}
		if err := call.Results[i].Check(); err != nil {
			return fault(fmt.Errorf("output %q: %w", spec.Name, err))
		}
	}
	return nil
}
