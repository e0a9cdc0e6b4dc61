package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// maxIDBytes bounds request_id and episode_id: they are repeated, compared and kept.
const maxIDBytes = 256

// checkRequest refuses what no model could make right. The error is a *tensor.FieldError.
func checkRequest(req *weftv1.PredictRequest) error {
	for _, id := range []struct{ field, value string }{{"request_id", req.GetRequestId()}, {"episode_id", req.GetEpisodeId()}} {
		if len(id.value) > maxIDBytes {
			return &tensor.FieldError{Field: id.field, Want: fmt.Sprintf("at most %d bytes", maxIDBytes), Got: fmt.Sprintf("%d bytes", len(id.value))}
		}
	}
	if _, ok := weftv1.Priority_name[int32(req.GetPriority())]; !ok {
		return &tensor.FieldError{Field: "priority", Want: "one of " + enumNames(weftv1.Priority_name), Got: strconv.Itoa(int(int32(req.GetPriority())))}
	}
	if _, ok := weftv1.OutputEncoding_name[int32(req.GetOutputEncoding())]; !ok {
		return &tensor.FieldError{Field: "output_encoding", Want: "one of " + enumNames(weftv1.OutputEncoding_name), Got: strconv.Itoa(int(int32(req.GetOutputEncoding())))}
	}
	if d := req.GetTargetLatency(); d != nil {
		if err := checkDuration("target_latency", d, 0); err != nil {
			return err
		}
	}
	return checkModelSpec(req.GetModel())
}

// enumNames lists the values of an enumeration in their order.
func enumNames(names map[int32]string) string {
	var all []string
	for _, value := range slices.Sorted(maps.Keys(names)) {
		all = append(all, names[value])
	}
	return strings.Join(all, ", ")
}

func checkModelSpec(spec *weftv1.ModelSpec) error {
	if spec.GetName() == "" {
		return &tensor.FieldError{Field: "model.name", Want: "the name of a model", Got: "none"}
	}
	return nil
}

// checkDuration refuses malformed durations and those below least.
func checkDuration(field string, d *durationpb.Duration, least time.Duration) error {
	if d.CheckValid() != nil || d.AsDuration() < least {
		return &tensor.FieldError{Field: field, Want: fmt.Sprintf("a duration of at least %v", least), Got: fmt.Sprintf("%ds %dns", d.GetSeconds(), d.GetNanos())}
	}
	return nil
}

// choiceOf says what a request asks for in the terms of routing.
func choiceOf(spec *weftv1.ModelSpec) routing.Choice {
	switch c := spec.GetVersionChoice().(type) {
	case *weftv1.ModelSpec_Version:
		return routing.Choice{Version: &c.Version}
	case *weftv1.ModelSpec_Label:
		return routing.Choice{Label: &c.Label}
	}
	return routing.Choice{}
}

var priorities = [...]sharedsched.Priority{
	weftv1.Priority_PRIORITY_UNSPECIFIED:    sharedsched.Critical,
	weftv1.Priority_PRIORITY_CRITICAL:       sharedsched.Critical,
	weftv1.Priority_PRIORITY_CRITICAL_PLUS:  sharedsched.CriticalPlus,
	weftv1.Priority_PRIORITY_SHEDDABLE:      sharedsched.Sheddable,
	weftv1.Priority_PRIORITY_SHEDDABLE_PLUS: sharedsched.SheddablePlus,
}

// newCall checks the request, which has passed checkRequest, against the version that is to answer it. The call's inputs are
// the request's own memory where they came raw. came counts the forms in which inputs came. The error is a *tensor.FieldError.
func newCall(req *weftv1.PredictRequest, v *catalog.Version) (call *catalog.Call, came forms, err error) {
	call = &catalog.Call{
		Version:  v,
		Inputs:   make([]tensor.Tensor, len(v.Signature.Inputs)),
		Target:   req.GetTargetLatency().AsDuration(),
		Priority: priorities[req.GetPriority()],
	}
	if call.Wanted, err = wantedOutputs(v.Signature, req.GetOutputs()); err != nil {
		return nil, came, err
	}
	if err := checkInputNames(v.Signature, req.GetInputs()); err != nil {
		return nil, came, err
	}
	for i := range v.Signature.Inputs {
		spec := &v.Signature.Inputs[i]
		in, how, err := decodeInput(spec, req.GetInputs()[spec.Name])
		if err != nil {
			return nil, came, err
		}
		call.Inputs[i] = in
		came[how]++
	}
	if call.Rows, err = v.Signature.Rows(call.Inputs); err != nil {
		return nil, came, err
	}
	if want := wantedRows(v, call.Rows); want != "" {
		i := slices.IndexFunc(v.Signature.Inputs, func(s tensor.Spec) bool { return s.BatchDim != tensor.NoBatch })
		spec := &v.Signature.Inputs[i] // there is one: else the request would be one row
		return nil, came, &tensor.FieldError{
			Field: inputField(spec.Name) + ".shape", Want: want,
			Got: fmt.Sprintf("%d rows in dimension %d of %s", call.Rows, spec.BatchDim, call.Inputs[i].Shape.Literal()),
		}
	}
	return call, came, nil
}

// wantedRows says how many rows a request may bring, "" if it brings as many. Where requests are executed one by one there may also be
// none: what a model makes of that is its affair.
func wantedRows(v *catalog.Version, rows int) string {
	most := v.Batching.MaxRequestRows
	switch {
	case rows == 0 && v.Batching.Batched:
		return "at least one row, because rows of several requests are executed together (with batching.mode: off the model is asked as it is)"
	case most > 0 && rows > most:
		return fmt.Sprintf("at most %d rows in one request (batching.max_request_rows)", most)
	}
	return ""
}

// checkInputNames refuses missing inputs and inputs that the model does not have.
func checkInputNames(sig *tensor.Signature, inputs map[string]*weftv1.Tensor) error {
	for _, spec := range sig.Inputs {
		if _, ok := inputs[spec.Name]; ok {
			continue
		}
		got := "none of that name"
		if foreign := foreignNames(sig, inputs); foreign != "" {
			got += ", but " + foreign
		}
		return &tensor.FieldError{Field: inputField(spec.Name), Want: fmt.Sprintf("a tensor of %v %v", spec.DType, spec.Shape), Got: got}
	}
	if len(inputs) > len(sig.Inputs) {
		return &tensor.FieldError{Field: "inputs", Want: "only " + specNames(sig.Inputs), Got: "also " + foreignNames(sig, inputs)}
	}
	return nil
}

func inputField(name string) string { return fmt.Sprintf("inputs[%q]", name) }

// inInput says of an error about a part of a tensor's message of which input it is.
func inInput(name string, err error) error {
	e, ok := errors.AsType[*tensor.FieldError](err)
	if !ok {
		return err
	}
	field := inputField(name)
	if e.Field != "" {
		field += "." + e.Field
	}
	return &tensor.FieldError{Field: field, Want: e.Want, Got: e.Got}
}

// foreignNames lists a few of the inputs that the model does not have.
func foreignNames(sig *tensor.Signature, inputs map[string]*weftv1.Tensor) string {
	const few = 4
	var names []string
	more := ""
	for name := range inputs {
		if sig.Input(name) >= 0 {
			continue
		}
		if len(names) == few {
			more = " and more"
			break
		}
		names = append(names, routing.Quote(name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + more
}

// specNames lists the names of a signature.
func specNames(specs []tensor.Spec) string {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = routing.Quote(spec.Name)
	}
	return routing.List(names)
}

// wantedOutputs returns the places of the named outputs, nil for all.
func wantedOutputs(sig *tensor.Signature, names []string) ([]int, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if len(names) > len(sig.Outputs) {
		return nil, &tensor.FieldError{Field: "outputs", Want: fmt.Sprintf("at most %d names, each once", len(sig.Outputs)), Got: fmt.Sprintf("%d names", len(names))}
	}
	wanted := make([]int, len(names))
	for i, name := range names {
		field := fmt.Sprintf("outputs[%d]", i)
		if wanted[i] = sig.Output(name); wanted[i] < 0 {
			return nil, &tensor.FieldError{Field: field, Want: "one of " + specNames(sig.Outputs), Got: routing.Quote(name)}
		}
		if slices.Contains(wanted[:i], wanted[i]) {
			return nil, &tensor.FieldError{Field: field, Want: "each output once", Got: routing.Quote(name) + " again"}
		}
	}
	return wanted, nil
}
