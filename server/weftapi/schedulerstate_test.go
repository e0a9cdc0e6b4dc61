package weftapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// textVersion takes tokens of any length, and a scale that all rows share.
var textVersion = &catalog.Version{
	Model: "text", Number: 3, State: catalog.Ready,
	Signature: &tensor.Signature{Inputs: []tensor.Spec{
		{Name: "tokens", DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}, BatchDim: 0},
		{Name: "scale", DType: tensor.Float32, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
	}},
}

// TestSchedulerStateIsShown: versions and flows are in order, those of one model can be asked for, a queue of an
// identity counts for its flow, and keys are in words.
func TestSchedulerStateIsShown(t *testing.T) {
	key := string(textVersion.Signature.Key(nil, []tensor.Tensor{
		{DType: tensor.Int64, Shape: tensor.Shape{1, 32}}, {DType: tensor.Float32, Data: []byte{1, 2, 3, 4}},
	}))
	h := servertest.New(t, server.Config{})
	s := servertest.PolicySnapshot()
	s.Models = s.Models.With("text", &catalog.Model{Name: "text", Versions: []*catalog.Version{textVersion}})
	h.Current.Store(s)
	h.Scheduler = sharedsched.State{
		Devices: []sharedsched.DeviceState{{Device: sharedsched.Device{Name: "cpu", Class: "cpu"}}},
		Flows: []sharedsched.FlowState{
			{ID: 1, Name: "text/3", Device: "cpu"},
			{ID: 2, Name: "policy/2", Device: "cpu"},
			{ID: 3, Name: "text/3 of pilot", Device: "cpu"},
		},
		Versions: []sharedsched.VersionState{
			{
				ID: 1, Name: "text/3", Flow: 1, Queued: 5, Background: 1,
				Queues: []sharedsched.QueueState{{Key: key, Tasks: 4}, {Key: key, Flow: 3, Identity: "pilot", Tasks: 2}},
				Costs:  []sharedsched.CostState{{ShapeKey: key[:8], Entries: []cost.Entry{{Rows: 2, Trusted: true}}}},
			},
			{ID: 2, Name: "policy/2", Flow: 2, Queued: 1, Queues: []sharedsched.QueueState{{Tasks: 1}}},
		},
		Decisions: []sharedsched.Decision{
			{Name: "text/3", Kind: sharedsched.Ran, Flush: sharedsched.FlushDeviceIdle, Tasks: 1},
			{Name: "text/3", Kind: sharedsched.Ran, Flush: sharedsched.FlushDeviceIdle, Tasks: 1},
		},
	}
	show := func(req *weftv1.GetSchedulerStateRequest) *weftv1.SchedulerState {
		t.Helper()
		resp, err := h.Catalog.GetSchedulerState(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetState()
	}
	all, text := show(&weftv1.GetSchedulerStateRequest{}), show(&weftv1.GetSchedulerStateRequest{Model: "text"})
	flows := []*weftv1.SchedulerFlow{
		{Name: "policy/2", Device: "cpu", QueuedRequests: 1},
		{Name: "text/3", Device: "cpu", QueuedRequests: 4},
		{Name: "text/3 of pilot", Device: "cpu", QueuedRequests: 2},
	}
	if diff := cmp.Diff(flows, all.GetFlows(), protocmp.Transform()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(flows[1:], text.GetFlows(), protocmp.Transform()); diff != "" {
		t.Errorf("flows of one model (-want +got):\n%s", diff)
	}
	if q := all.GetQueues(); len(q) != 3 || q[0].GetModel() != "policy" || len(text.GetQueues()) != 2 ||
		!strings.HasPrefix(q[1].GetShapeKey(), "tokens[1]=32, values#") {
		t.Errorf("queues %v, of one model %v", q, text.GetQueues())
	}
	costs := []*weftv1.SchedulerCost{
		{Model: "text", Version: 3, ShapeKey: "tokens[1]=32", DeviceClass: "cpu", BatchSize: 2},
	}
	if diff := cmp.Diff(costs, all.GetCosts(), protocmp.Transform()); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
	policy := show(&weftv1.GetSchedulerStateRequest{Model: "policy"})
	if len(policy.GetDevices()) != 1 || len(policy.GetDecisions()) != 0 || len(text.GetDecisions()) != 2 {
		t.Errorf("of one model %v, of the other %v", policy, text)
	}
	if one := show(&weftv1.GetSchedulerStateRequest{MaxDecisions: 1}); len(one.GetDecisions()) != 1 {
		t.Errorf("asked for one decision: %v", one.GetDecisions())
	}
	_, err := h.Catalog.GetSchedulerState(t.Context(), &weftv1.GetSchedulerStateRequest{MaxDecisions: -1})
	servertest.WantCode(t, err, codes.InvalidArgument, "max_decisions: expected 0 or more, got -1")
}
