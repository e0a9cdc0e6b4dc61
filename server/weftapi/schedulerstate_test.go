package weftapi_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// textVersion takes tokens of any length, and a scale that all rows share.
var textVersion = &catalog.Version{
	Model: "text", Number: 3, State: catalog.Ready,
	Signature: &tensor.Signature{Inputs: []tensor.Spec{
		{Name: "tokens", DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}, BatchDim: 0},
		{Name: "scale", DType: tensor.Float32, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
	}},
}

// schedulerStates runs a scheduler with two versions and returns its state while one batch runs, tasks wait and one was
// refused, and its state when all is done.
func schedulerStates(t *testing.T) (busy, idle sharedsched.State) {
	synctest.Test(t, func(t *testing.T) {
		executor := &lateExecutor{release: make(chan struct{})}
		scheduler, err := shell.New(sharedsched.Config{
			Devices: []sharedsched.Device{{Name: "cpu", Class: "cpu", Lanes: 1}},
		}, executor, shell.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer scheduler.Close()
		add := func(name string, weight float64, queue int) sharedsched.VersionID {
			flow, err := scheduler.AddFlow(name, "cpu", weight)
			if err != nil {
				t.Fatal(err)
			}
			id, err := scheduler.AddVersion(name, flow,
				sharedsched.Settings{Batched: true, MaxBatchSize: 8, MaxQueue: queue})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		text, policy := add("text/3", 2, 1), add("policy/2", 1, 2)
		do := func(id sharedsched.VersionID, task *sharedsched.Task) {
			go func() {
				if _, err := scheduler.Do(context.Background(), id, task); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		key := string(textVersion.Signature.Key(nil, []tensor.Tensor{
			{DType: tensor.Int64, Shape: tensor.Shape{1, 32}}, {DType: tensor.Float32, Data: []byte{1, 2, 3, 4}},
		}))
		do(text, &sharedsched.Task{Rows: 2, Key: key, ShapeKey: key[:8]})
		do(text, &sharedsched.Task{Rows: 3, Key: key, ShapeKey: key[:8], Bytes: 100})
		if _, err := scheduler.Do(t.Context(), text,
			&sharedsched.Task{Rows: 5, Key: key, ShapeKey: key[:8]}); err == nil {
			t.Error("the queue is not full")
		}
		do(policy, &sharedsched.Task{Rows: 1})
		time.Sleep(time.Millisecond)
		busy = scheduler.State()
		close(executor.release)
		synctest.Wait()
		idle = scheduler.State()
	})
	return busy, idle
}

// lateExecutor holds every batch until release is closed, and says that each took 5 ms.
type lateExecutor struct{ release chan struct{} }

func (e *lateExecutor) Execute(*sharedsched.Batch) sharedsched.Report {
	<-e.release
	return sharedsched.Report{DeviceTime: 5 * time.Millisecond}
}

func TestSchedulerStateIsShown(t *testing.T) {
	busy, idle := schedulerStates(t)
	h := servertest.New(t, server.Config{})
	s := servertest.PolicySnapshot()
	s.Models = s.Models.With("text", &catalog.Model{Name: "text", Versions: []*catalog.Version{textVersion}})
	h.Current.Store(s)
	show := func(state sharedsched.State, req *weftv1.GetSchedulerStateRequest) *weftv1.SchedulerState {
		t.Helper()
		h.Scheduler = state
		resp, err := h.Catalog.GetSchedulerState(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetState()
	}
	want := &weftv1.SchedulerState{
		QueuedBytes: 100,
		// Nothing was measured yet: a batch of up to 4 rows is taken to cost 50 ms.
		Devices: []*weftv1.SchedulerDevice{{
			Name: "cpu", DeviceClass: "cpu", Lanes: 1, InFlight: 1, BusyMs: 1,
			ClockFactor: 1, CoTenantFactor: 1, ResidualFactor: 1, WaitFactor: 1,
		}},
		Flows: []*weftv1.SchedulerFlow{
			{Name: "policy/2", Device: "cpu", Weight: 1, QueuedRequests: 1},
			{Name: "text/3", Device: "cpu", Weight: 2, QueuedRequests: 1},
		},
		Queues: []*weftv1.SchedulerQueue{
			{
				// Wanted within five batches: it must start one and a twentieth before that.
				Model: "policy", Version: 2, Requests: 1, Rows: 1, MaxQueue: 2,
				Stage: weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_PENDING, NextCostMs: 50,
				SlackMs: 250 - 52.5 - 12.5 - 1 - 1,
			},
			{
				// It waits for the first measurement of its cost.
				Model: "text", Version: 3, ShapeKey: "tokens[1]=32, values#", Requests: 1, Rows: 3, InFlight: 1,
				MaxQueue: 1,
				Stage:    weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_RESTING,
			},
		},
		Curves: []*weftv1.SchedulerCurve{
			{
				Model: "policy", Version: 2, DeviceClass: "cpu", Factor: 1, ResidualFactor: 1, ClockShare: 0.7,
				CoTenantGain: 1,
			},
			{
				Model: "text", Version: 3, ShapeKey: "tokens[1]=32", DeviceClass: "cpu", Factor: 1, ResidualFactor: 1,
				ClockShare: 0.7, CoTenantGain: 1,
			},
		},
		Decisions: []*weftv1.SchedulerDecision{
			{
				Kind: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_REFUSED, Model: "text", Version: 3,
				Requests: 1, Rows: 5, Reason: "QUEUE_FULL", Age: durationpb.New(time.Millisecond),
				Text:    "refused 5 rows: the queue is full: 1 of 1 requests wait",
				Numbers: map[string]float64{"queued": 1, "max_queue": 1},
			},
			{
				Kind: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_RAN, Model: "text", Version: 3, Requests: 1,
				Rows: 2, Reason: "DEVICE_IDLE", Age: durationpb.New(time.Millisecond),
				Rule: "earliest target",
			},
		},
	}
	got := show(busy, &weftv1.GetSchedulerStateRequest{})
	for _, q := range got.GetQueues() {
		if q.GetMaxBatchRows() < 1 || q.GetMaxBatchRows() > 8 {
			t.Errorf("queue %v", q)
		}
		// The fingerprint need only be there.
		q.ShapeKey = q.GetShapeKey()[:min(len(q.GetShapeKey()), len("tokens[1]=32, values#"))]
	}
	ran := got.GetDecisions()[len(got.GetDecisions())-1]
	if ran.GetNumbers()["executed_rows"] != 2 || ran.GetNumbers()["estimate_ms"] <= 0 || ran.GetText() == "" {
		t.Errorf("decision %v", ran)
	}
	ran.Numbers, ran.Text = nil, ""
	skeleton := []cmp.Option{
		protocmp.Transform(),
		protocmp.IgnoreFields(&weftv1.SchedulerDevice{}, "virtual_time_ms"),
		protocmp.IgnoreFields(&weftv1.SchedulerFlow{}, "virtual_time_ms", "charged_ms"),
		protocmp.IgnoreFields(&weftv1.SchedulerQueue{}, "max_batch_rows"),
	}
	if diff := cmp.Diff(want, got, skeleton...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	got = show(busy, &weftv1.GetSchedulerStateRequest{Model: "policy"})
	if len(got.GetFlows()) != 1 || len(got.GetQueues()) != 1 || len(got.GetDecisions()) != 0 ||
		len(got.GetDevices()) != 1 {
		t.Errorf("state of one model: %v", got)
	}
	if got = show(busy, &weftv1.GetSchedulerStateRequest{MaxDecisions: 1}); len(got.GetDecisions()) != 1 {
		t.Errorf("asked for one decision: %v", got.GetDecisions())
	}
	_, err := h.Catalog.GetSchedulerState(t.Context(), &weftv1.GetSchedulerStateRequest{MaxDecisions: -1})
	servertest.WantCode(t, err, codes.InvalidArgument, "max_decisions: expected 0 or more, got -1")

	got = show(idle, &weftv1.GetSchedulerStateRequest{Model: "text"})
	wantCosts := []*weftv1.SchedulerCost{
		{
			Model: "text", Version: 3, ShapeKey: "tokens[1]=32", BatchSize: 2, DeviceClass: "cpu", MedianUs: 5000,
			HighUs: 6375, Samples: 1, Cold: true,
		},
		{
			Model: "text", Version: 3, ShapeKey: "tokens[1]=32", BatchSize: 3, DeviceClass: "cpu", MedianUs: 5000,
			HighUs: 6375, Samples: 1, Cold: true,
		},
	}
	if diff := cmp.Diff(wantCosts, got.GetCosts(), protocmp.Transform()); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
	if charged := got.GetFlows()[0].GetChargedMs(); charged != 10 {
		t.Errorf("the flow is charged %v ms for two batches of 5 ms", charged)
	}
}
