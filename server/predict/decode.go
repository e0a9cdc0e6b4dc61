package predict

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// decode reads the inputs and the wanted outputs of a request for the version that is to answer it, into a call. The
// error is a *tensor.FieldError. Inputs that the server may fill need not be there.
func decode(req *Request, v *catalog.Version, call *catalog.Call) (err error) {
	sig := v.Signature
	*call = catalog.Call{
		Version: v, Inputs: make([]tensor.Tensor, len(sig.Inputs)),
		Limit: req.Limit, Target: req.Target, Priority: req.Priority, Caller: req.Caller,
	}
	req.mostRows = v.Batching.MaxRequestRows
	if call.Wanted, err = wantedOutputs(sig, req.Outputs); err != nil {
		return err
	}
	return decodeInputs(req, call)
}

// complete checks a call that has all its inputs.
func complete(req *Request, call *catalog.Call) (err error) {
	if call.Rows, err = call.Version.Signature.Rows(call.Inputs); err != nil {
		return err
	}
	return cmp.Or(checkRows(req, call.Version.Signature, call.Inputs), checkOutputs(req, call))
}

// checkRows refuses inputs that bring too many rows.
func checkRows(req *Request, sig *tensor.Signature, inputs []tensor.Tensor) error {
	for i := range sig.Inputs {
		if in := &inputs[i]; in.DType != tensor.Invalid {
			if err := req.CheckRows(&sig.Inputs[i], in.Shape); err != nil {
				return inInput(sig.Inputs[i].Name, err)
			}
		}
	}
	return nil
}

// CheckRows refuses the shape of an input that brings more rows than the version takes, which the input accepts
// otherwise. Codecs whose elements take long to read ask it before they do. The error is a *tensor.FieldError.
func (r *Request) CheckRows(input *tensor.Spec, shape tensor.Shape) error {
	if r.mostRows == 0 || input.BatchDim == tensor.NoBatch || shape[input.BatchDim] <= int64(r.mostRows) {
		return nil
	}
	return &tensor.FieldError{
		Field: "shape", Want: fmt.Sprintf("at most %d rows in one request (batching.max_request_rows)", r.mostRows),
		Got: fmt.Sprintf("%d rows in dimension %d of %s", shape[input.BatchDim], input.BatchDim, shape.Literal()),
	}
}

// checkOutputs has the codec look at the outputs that the request names.
func checkOutputs(req *Request, call *catalog.Call) error {
	codec, looks := req.Codec.(OutputChecker)
	if !looks {
		return nil
	}
	for i := range req.Outputs { // call.Wanted may have others, which nobody has named
		if err := codec.CheckOutput(i, wantedSpec(call, i), call.Rows); err != nil {
			return err
		}
	}
	return nil
}

// decodeInputs reads the inputs. A wrong name is reported before a wrong tensor. Optional inputs follow the others in
// the call, in the signature's order, with the zero tensor for each that did not come; none is there if none came.
func decodeInputs(req *Request, call *catalog.Call) (err error) {
	v := call.Version
	sig := v.Signature
	if req.unnamed() && len(sig.Inputs) != 1 {
		return &tensor.FieldError{
			Field: "inputs", Want: "by name: " + specNames(slices.Concat(sig.Inputs, sig.Optional)), Got: "one without a name",
		}
	}
	var came map[string]bool
	needed := len(sig.Inputs)
	if req.Episode != "" && v.EpisodeState != nil && req.Inputs != needed-v.EpisodeState.Filled() {
		came = req.names() // it may bring some that the server would fill
	}
	for i := range sig.Inputs {
		if req.fills(v, i) && !came[sig.Inputs[i].Name] {
			needed--
			continue
		}
		spec := &sig.Inputs[i]
		var window *catalog.StateInput
		if req.Episode != "" && v.EpisodeState != nil {
			window = v.EpisodeState.Window(i)
		}
		if window != nil {
			spec = window.Loose(spec)
		}
		if call.Inputs[i], err = decodeInput(req, v, spec); err != nil {
			if wrong, is := errors.AsType[*tensor.FieldError](err); is && window != nil && wrong.Want == spec.Shape.String() {
				wrong.Want = window.Wants(&sig.Inputs[i])
			}
			return err
		}
	}
	if req.Inputs == needed {
		return nil
	}
	if came == nil {
		came = req.names()
	}
	optional := 0
	for i := range sig.Optional {
		spec := &sig.Optional[i]
		if !came[spec.Name] {
			continue
		}
		if optional++; optional == 1 {
			call.Inputs = append(call.Inputs, make([]tensor.Tensor, len(sig.Optional))...)
		}
		if call.Inputs[len(sig.Inputs)+i], err = decodeInput(req, v, spec); err != nil {
			return err
		}
	}
	if n := needed + optional; req.Inputs > n {
		return cmp.Or(checkNames(req, v), error(&tensor.FieldError{
			Field: "inputs", Want: "each input once", Got: fmt.Sprintf("%d inputs for %d", req.Inputs, n),
		}))
	}
	return nil
}

// decodeInput reads one input. Of a wrong one nothing is left.
func decodeInput(req *Request, v *catalog.Version, spec *tensor.Spec) (tensor.Tensor, error) {
	in, err := req.Codec.Decode(spec)
	if err != nil {
		wrong := inInput(spec.Name, err)
		if !req.unnamed() {
			wrong = cmp.Or(checkNames(req, v), wrong)
		}
		return tensor.Tensor{}, wrong
	}
	// Rows are copied by their shape: elements that a codec leaves out would be filled with data that another request
	// left.
	if err := in.Check(); err != nil {
		wrong := &tensor.FieldError{Want: "as many elements as its shape says", Got: err.Error()}
		return tensor.Tensor{}, inInput(spec.Name, wrong)
	}
	return in, nil
}

func inputField(name string) string { return fmt.Sprintf("inputs[%q]", name) }

// inInput completes an error about a part of an input.
func inInput(name string, err error) error {
	e, ok := errors.AsType[*tensor.FieldError](err)
	if !ok {
		return err
	}
	field := inputField(name)
	if e.Field != "" && e.Field[0] != '[' {
		field += "."
	}
	field += e.Field
	return &tensor.FieldError{Field: field, Want: e.Want, Got: e.Got}
}
