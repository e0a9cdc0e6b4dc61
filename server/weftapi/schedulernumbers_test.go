package weftapi_test

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
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
	script.Compare(t, "testdata/numbers.txt", map[string]string{"each number": script.JSON(got)})
	for _, m := range []protoreflect.ProtoMessage{
		got.GetDevices()[0], got.GetFlows()[0], got.GetQueues()[0], got.GetCosts()[0], got.GetCurves()[0],
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
	script.Compare(t, "testdata/decisions.txt", map[string]string{"decisions": script.JSON(got)})
}
