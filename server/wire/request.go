package wire

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// priorities maps the API's priorities to the scheduler's; a request that names none is critical. It has an entry for
// each value that check lets pass.
var priorities = [...]sharedsched.Priority{
	weftv1.Priority_PRIORITY_UNSPECIFIED:    sharedsched.Critical,
	weftv1.Priority_PRIORITY_CRITICAL:       sharedsched.Critical,
	weftv1.Priority_PRIORITY_CRITICAL_PLUS:  sharedsched.CriticalPlus,
	weftv1.Priority_PRIORITY_SHEDDABLE:      sharedsched.Sheddable,
	weftv1.Priority_PRIORITY_SHEDDABLE_PLUS: sharedsched.SheddablePlus,
}

// Request converts a decoded weft.v1 message to the request of the pipeline. It does not set the limit, the codec, nor
// who asks. A value that is none of the API's becomes the request's Fault, with which the pipeline refuses it. The
// request aliases the message, so it must not be used after Inbound.Forget.
//
// Request takes over all that the message has, and the decode buffer is pooled. So a field that scanned.reset (scan.go)
// does not clear leaks one caller's value into the next pooled request, unless each message sets it.
func Request(in *Inbound) predict.Request {
	m := in.Request
	r := predict.Request{
		Model: m.GetModel().GetName(), Choice: Choice(m.GetModel()),
		ID: m.GetRequestId(), Episode: m.GetEpisodeId(), BeginEpisode: m.GetBeginEpisode(),
		EndOfEpisode: m.GetEndOfEpisode(), Step: m.GetStep(),
		Target: m.GetTargetLatency().AsDuration(), Outputs: m.GetOutputs(), Inputs: len(m.GetInputs()),
		Fault: check(m), Message: in,
	}
	if r.Fault == nil {
		// check has seen to it that the priority is in the table.
		r.Priority = priorities[m.GetPriority()]
	}
	return r
}

// RequestMessage converts a request of the pipeline back to a weft.v1 message, for a recording. The request may have
// come by another protocol; the message then has the inputs that could be read. It is a copy, which may be kept.
func RequestMessage(r *predict.Recorded) *weftv1.PredictRequest {
	if m, ok := r.Request.Message.(*Inbound); ok {
		message := m.Clone()
		message.EpisodeId = r.Request.Episode // which may have come beside the message
		return message
	}
	m := &weftv1.PredictRequest{
		Model:     &weftv1.ModelSpec{Name: r.Request.Model},
		RequestId: r.Request.ID, EpisodeId: r.Request.Episode, BeginEpisode: r.Request.BeginEpisode,
		EndOfEpisode: r.Request.EndOfEpisode, Step: r.Request.Step,
		// From 1 on, since 0, unspecified, is critical as well.
		Priority: weftv1.Priority(slices.Index(priorities[1:], r.Request.Priority) + 1), Outputs: r.Request.Outputs,
		Inputs: map[string]*weftv1.Tensor{},
	}
	switch c := r.Request.Choice; {
	case c.Version != nil:
		m.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: *c.Version}
	case c.Label != nil:
		m.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: *c.Label}
	}
	if r.Request.Target != 0 {
		m.TargetLatency = durationpb.New(r.Request.Target)
	}
	// Another protocol's inputs are tensors only: their message is raw where it can be.
	for spec, t := range r.Inputs() {
		m.Inputs[spec.Name] = Encode(t.Clone(), true)
	}
	return m
}

// Choice converts the part of a message that chooses a version. The zero Choice leaves it to the model's traffic.
func Choice(spec *weftv1.ModelSpec) routing.Choice {
	switch c := spec.GetVersionChoice().(type) {
	case *weftv1.ModelSpec_Version:
		version := c.Version // a copy: the decode buffer is used again, and a Choice may be kept for longer
		return routing.Choice{Version: &version}
	case *weftv1.ModelSpec_Label:
		label := c.Label
		return routing.Choice{Label: &label}
	}
	return routing.Choice{}
}

// check refuses values that are none of the API's: proto3 decodes any number as an enum. The error is a
// *tensor.FieldError.
func check(m *weftv1.PredictRequest) error {
	if err := checkEnum("priority", int32(m.GetPriority()), weftv1.Priority_name); err != nil {
		return err
	}
	if err := checkEnum("output_encoding", int32(m.GetOutputEncoding()), weftv1.OutputEncoding_name); err != nil {
		return err
	}
	if d := m.GetTargetLatency(); d != nil {
		return CheckDuration("target_latency", d, 0)
	}
	return nil
}

// checkEnum refuses a value that has no name, and lists the names, by their numbers.
func checkEnum(field string, value int32, names map[int32]string) error {
	if _, ok := names[value]; ok {
		return nil
	}
	var all []string
	for _, known := range slices.Sorted(maps.Keys(names)) {
		all = append(all, names[known])
	}
	return &tensor.FieldError{Field: field, Want: "one of " + strings.Join(all, ", "), Got: strconv.Itoa(int(value))}
}

// CheckDuration refuses malformed durations and those below least. The error is a *tensor.FieldError.
func CheckDuration(field string, d *durationpb.Duration, least time.Duration) error {
	if d.CheckValid() != nil || d.AsDuration() < least {
		return &tensor.FieldError{
			Field: field, Want: fmt.Sprintf("a duration of at least %v", least),
			Got: fmt.Sprintf("%ds %dns", d.GetSeconds(), d.GetNanos()),
		}
	}
	return nil
}
