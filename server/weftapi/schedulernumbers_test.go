package weftapi_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// shown returns a state as callers see it.
func shown(t *testing.T, state *sharedsched.State) *weftv1.SchedulerState {
	t.Helper()
	h := servertest.New(t, server.Config{})
	h.Scheduler = *state
	s := servertest.PolicySnapshot()
	s.Lost = []catalog.LostDevice{
		{Name: "cuda:0", Cause: "fell off the bus \xff"},
		{Name: "cuda:1", Cause: "overheated"},
	}
	h.Current.Store(s)
	resp, err := h.Catalog.GetSchedulerState(t.Context(), &weftv1.GetSchedulerStateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetState()
}

// TestEveryNumberHasItsPlace: no two numbers of the state are equal, and every field of the messages is set.
func TestEveryNumberHasItsPlace(t *testing.T) {
	const ms = time.Millisecond
	got := shown(t, &sharedsched.State{
		Draining: true, QueuedBytes: 1,
		Devices: []sharedsched.DeviceState{{
			Device:   sharedsched.Device{Name: "cuda:0", Class: "cuda", Lanes: 2},
			InFlight: 3, Busy: 4 * ms, VirtualTime: fairq.Tag(5 * ms), Demanding: 6, Lag: fairq.Tag(7 * ms),
			Work: 9 * ms, Cap: 10 * ms, Clock: 1.1, CoTenant: 1.2, Residual: 1.3, Waits: 1.4,
			Throttled: true, MemoryFree: 101, MemoryTotal: 102,
		}},
		Flows: []sharedsched.FlowState{{
			ID: 11, Name: "policy/2", Device: "cuda:0", Weight: 12, Start: fairq.Tag(13 * ms), Served: 14 * ms,
			Demanding: true, Beyond: true,
			Lead: fairq.Tag(15 * ms), Work: 16 * ms,
		}},
		Versions: []sharedsched.VersionState{{
			ID: 17, Name: "policy/2", Flow: 11, Settings: sharedsched.Settings{MaxQueue: 18}, Queued: 19,
			Background: 20, Waiting: 105,
			Queues: []sharedsched.QueueState{{
				Key: "k", Tasks: 21, Rows: 22, Running: 23, MaxRows: 24, Stage: "demanding", NextCost: 25 * ms,
				Slack:      -26 * ms,
				MemoryRows: 103, OutOfMemory: 104 * ms,
			}},
			Costs: []sharedsched.CostState{{
				ShapeKey: "s",
				Entries: []cost.Entry{{
					Rows: 27, Median: 28 * time.Microsecond, MAD: 29 * time.Microsecond, High: 30 * time.Microsecond,
					Samples: 31, Outliers: 32,
				}},
				Explanation: cost.Explanation{
					Alpha: 33 * time.Microsecond, Beta: 34 * time.Microsecond, Inherited: true, Drifts: 35,
					Factor: 3.6, Residual: 3.7, ClockShare: 0.38, CoTenantGain: 3.9,
				},
			}},
		}},
	})
	key, shape := got.GetQueues()[0].GetShapeKey(), got.GetCosts()[0].GetShapeKey()
	want := &weftv1.SchedulerState{
		Draining: true, QueuedBytes: 1,
		Devices: []*weftv1.SchedulerDevice{{
			Name: "cuda:0", DeviceClass: "cuda", Lanes: 2, InFlight: 3, BusyMs: 4, VirtualTimeMs: 5, DemandingFlows: 6,
			LagMs: 7, WorkMs: 9, CapMs: 10, ClockFactor: 1.1, CoTenantFactor: 1.2, ResidualFactor: 1.3,
			WaitFactor: 1.4,
			Throttled:  true, MemoryFreeBytes: 101, MemoryTotalBytes: 102,
			Lost: "fell off the bus �",
		}},
		Flows: []*weftv1.SchedulerFlow{{
			Name: "policy/2", Device: "cuda:0", Weight: 12, VirtualTimeMs: 13, ChargedMs: 14, QueuedRequests: 39,
			Demanding: true, BeyondShare: true,
			LeadMs: 15, WorkMs: 16,
		}},
		Queues: []*weftv1.SchedulerQueue{{
			Model: "policy", Version: 2, ShapeKey: key, Requests: 21, Rows: 22, InFlight: 23, MaxBatchRows: 24,
			MaxQueue: 18,
			Stage:    weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_DEMANDING, NextCostMs: 25, SlackMs: -26,
			BackgroundRequests: 20, MemoryRows: 103, OutOfMemoryMs: 104,
			WaitingForRoom: 105,
		}},
		Costs: []*weftv1.SchedulerCost{{
			Model: "policy", Version: 2, ShapeKey: shape, BatchSize: 27, DeviceClass: "cuda", MedianUs: 28, MadUs: 29,
			HighUs:  30,
			Samples: 31, Outliers: 32, Cold: true,
		}},
		Curves: []*weftv1.SchedulerCurve{{
			Model: "policy", Version: 2, ShapeKey: shape, DeviceClass: "cuda", AlphaUs: 33, BetaUs: 34, Inherited: true,
			Drifts: 35,
			Factor: 3.6, ResidualFactor: 3.7, ClockShare: 0.38, CoTenantGain: 3.9,
		}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, m := range []protoreflect.ProtoMessage{
		want.GetDevices()[0], want.GetFlows()[0], want.GetQueues()[0],
		want.GetCosts()[0], want.GetCurves()[0],
	} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if !m.ProtoReflect().Has(fields.Get(i)) {
				t.Errorf("%s is not tried here", fields.Get(i).FullName())
			}
		}
	}
}

func TestQueueStagesAreKnown(t *testing.T) {
	for stage, want := range map[string]weftv1.SchedulerQueueStage{
		"resting":   weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_RESTING,
		"pending":   weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_PENDING,
		"demanding": weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_DEMANDING,
	} {
		got := shown(t, &sharedsched.State{Versions: []sharedsched.VersionState{{
			Name:   "policy/2",
			Queues: []sharedsched.QueueState{{Stage: stage}},
		}}})
		if got := got.GetQueues()[0].GetStage(); got != want {
			t.Errorf("%s is shown as %v, want %v", stage, got, want)
		}
	}
}

func TestDecisionsAreShown(t *testing.T) {
	const ms = time.Millisecond
	decided := func(d sharedsched.Decision) sharedsched.Decision {
		d.At, d.Name = 3*sharedsched.Time(ms), "policy/2"
		return d
	}
	dropped := func(why sharedsched.DropReason, had, needs time.Duration) sharedsched.Decision {
		return decided(sharedsched.Decision{
			Kind: sharedsched.Dropped, Rows: 2, Drop: why, Waited: 40 * ms, Had: had,
			Needs: needs,
		})
	}
	got := shown(t, &sharedsched.State{Now: 10 * sharedsched.Time(ms), Decisions: []sharedsched.Decision{
		decided(sharedsched.Decision{
			Kind: sharedsched.Ran, Flush: sharedsched.FlushBudgetReached, Tasks: 3, Rows: 5, Padded: 8, Left: 9,
			Estimate: cost.Estimate{Cost: 10 * ms}, Lead: fairq.Tag(11 * ms), Rule: sharedsched.PickBehind,
			Slack: -12 * ms, Demanding: 4,
		}),
		decided(sharedsched.Decision{Kind: sharedsched.Refused, Rows: 1, Refused: sharedsched.Refusal{
			Reason: sharedsched.RefusedForGoodput, Queued: 7, MaxQueue: 1000, Predicted: 300 * ms, Limit: 120 * ms,
		}}),
		decided(sharedsched.Decision{Kind: sharedsched.Refused, Refused: sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, Queued: 7, MaxQueue: 1000,
		}}),
		decided(sharedsched.Decision{Kind: sharedsched.Refused, Refused: sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, QueuedBytes: 8, MaxQueuedBytes: 9,
		}}),
		dropped(sharedsched.DropExpired, -ms, 0),
		dropped(sharedsched.DropHopeless, 5*ms, 6*ms),
		dropped(sharedsched.DropWindow, 7*ms, 8*ms),
		dropped(sharedsched.DropRoom, math.MaxInt64, 0), // it had no limit
	}})
	dropKind := weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_DROPPED
	want := []*weftv1.SchedulerDecision{
		{
			Kind: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_RAN, Requests: 3, Rows: 5,
			Reason: "BUDGET_REACHED",
			Rule:   "furthest behind of those in conflict",
			Numbers: map[string]float64{
				"executed_rows": 8, "rows_left": 9, "estimate_ms": 10, "flow_lead_ms": 11, "slack_ms": -12,
				"demanding_flows": 4,
			},
		},
		{
			Kind: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_REFUSED, Requests: 1, Rows: 1,
			Reason:  "DROPPED_FOR_GOODPUT",
			Numbers: map[string]float64{"predicted_ms": 300, "limit_ms": 120},
		},
		{
			Kind: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_REFUSED, Requests: 1,
			Reason: "QUEUE_FULL", Numbers: map[string]float64{"queued": 7, "max_queue": 1000},
		},
		{
			Kind: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_REFUSED, Requests: 1,
			Reason: "QUEUE_FULL", Numbers: map[string]float64{"queued_bytes": 8, "max_queued_bytes": 9},
		},
		{Kind: dropKind, Requests: 1, Rows: 2, Reason: "EXPIRED", Numbers: map[string]float64{"waited_ms": 40}},
		{
			Kind: dropKind, Requests: 1, Rows: 2,
			Reason: "HOPELESS", Numbers: map[string]float64{"waited_ms": 40, "left_ms": 5, "needed_ms": 6},
		},
		{
			Kind: dropKind, Requests: 1, Rows: 2,
			Reason: "WINDOW", Numbers: map[string]float64{"waited_ms": 40, "left_ms": 7, "needed_ms": 8},
		},
		{Kind: dropKind, Requests: 1, Rows: 2, Reason: "ROOM", Numbers: map[string]float64{"waited_ms": 40}},
	}
	for _, d := range want {
		d.Model, d.Version, d.Age = "policy", 2, durationpb.New(7*ms)
	}
	for _, d := range got.GetDecisions() {
		if d.GetText() == "" {
			t.Errorf("no text for %v", d)
		}
		d.Text = ""
	}
	if diff := cmp.Diff(want, got.GetDecisions(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
