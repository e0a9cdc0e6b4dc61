package weftapi

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// GetSchedulerState implements weftv1.ModelServiceServer. It takes the scheduler's lock once, for a copy of its state,
// and converts that without the lock.
func (s Catalog) GetSchedulerState(
	ctx context.Context, req *weftv1.GetSchedulerStateRequest,
) (*weftv1.GetSchedulerStateResponse, error) {
	if n := req.GetMaxDecisions(); n < 0 {
		err := &tensor.FieldError{Field: "max_decisions", Want: "0 or more", Got: strconv.Itoa(int(n))}
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	if name := req.GetModel(); name != "" {
		if _, err := s.table().Model(name); err != nil {
			return nil, s.Fail(ctx, err, predict.Place{})
		}
	}
	state := s.Scheduler.State()
	view := stateView{state: &state, snapshot: s.snapshot(), model: req.GetModel()}
	return &weftv1.GetSchedulerStateResponse{State: view.message(int(req.GetMaxDecisions()))}, nil
}

// stateView puts the scheduler's state, which knows versions by numbers and shapes by bytes, into the words of the API.
type stateView struct {
	state    *sharedsched.State
	snapshot *catalog.Snapshot
	model    string // the only model to show; "" for all
}

// message converts the state, with at most maxDecisions decisions, the newest; 0: all of them.
func (v *stateView) message(maxDecisions int) *weftv1.SchedulerState {
	out := &weftv1.SchedulerState{Draining: v.state.Draining, QueuedBytes: v.state.QueuedBytes, Flows: v.flows()}
	for i := range v.state.Devices {
		d := deviceMessage(&v.state.Devices[i])
		// The scheduler does not know why a device was lost; the catalog does.
		for _, lost := range v.snapshot.Lost {
			if lost.Name == d.GetName() {
				d.Lost = catalog.PublicText(lost.Cause)
			}
		}
		out.Devices = append(out.Devices, d)
	}
	for _, named := range v.versions() {
		class := v.deviceClass(named.state.Flow)
		out.Queues = append(out.Queues, named.queues()...)
		out.Costs = append(out.Costs, named.costs(class)...)
		out.Curves = append(out.Curves, named.curves(class)...)
	}
	for i := range v.state.Decisions {
		if maxDecisions > 0 && len(out.GetDecisions()) == maxDecisions {
			break
		}
		d := &v.state.Decisions[i]
		if model, number := splitName(d.Name); v.shows(model) {
			out.Decisions = append(out.Decisions, decisionMessage(v.state.Now, model, number, d))
		}
	}
	return out
}

// shows reports whether what belongs to a model is to be shown.
func (v *stateView) shows(model string) bool { return v.model == "" || v.model == model }

// deviceMessage converts the state of a device. Factors say how much longer executions take than in its reference
// state.
func deviceMessage(d *sharedsched.DeviceState) *weftv1.SchedulerDevice {
	return &weftv1.SchedulerDevice{
		Name: d.Name, DeviceClass: d.Class, Lanes: int32(d.Lanes), InFlight: int32(d.InFlight),
		BusyMs: inMilliseconds(d.Busy), VirtualTimeMs: inMilliseconds(d.VirtualTime),
		DemandingFlows: int32(d.Demanding), LagMs: inMilliseconds(d.Lag),
		WorkMs: inMilliseconds(d.Work), CapMs: inMilliseconds(d.Cap),
		ClockFactor: d.Clock, CoTenantFactor: d.CoTenant, ResidualFactor: d.Residual,
		WaitFactor: d.Waits,
		Throttled:  d.Throttled, MemoryFreeBytes: d.MemoryFree, MemoryTotalBytes: d.MemoryTotal,
	}
}

// flows shows every flow that a shown version belongs to, or has a queue of, with the requests that wait in it. A
// version counts its tasks as those of its own flow; the tasks of queues that belong to an identity are moved to that
// identity's flow. Without a model all flows are shown, also those without requests.
func (v *stateView) flows() []*weftv1.SchedulerFlow {
	queued := make(map[sharedsched.FlowID]int)
	for i := range v.state.Versions {
		version := &v.state.Versions[i]
		if model, _ := splitName(version.Name); v.shows(model) {
			// First every waiting task of the version counts for its own flow; then the tasks of identities move to theirs.
			queued[version.Flow] += version.Queued + version.Background
			for j := range version.Queues {
				if q := &version.Queues[j]; q.Identity != "" {
					queued[version.Flow] -= q.Tasks
					queued[q.Flow] += q.Tasks
				}
			}
		}
	}
	var out []*weftv1.SchedulerFlow
	for _, f := range v.state.Flows {
		n, shown := queued[f.ID]
		// A flow of another model only.
		if !shown && v.model != "" {
			continue
		}
		out = append(out, &weftv1.SchedulerFlow{
			Name: f.Name, Device: f.Device, Weight: f.Weight, VirtualTimeMs: inMilliseconds(f.Start),
			ChargedMs: inMilliseconds(f.Served), QueuedRequests: int32(n),
			Demanding: f.Demanding, LeadMs: inMilliseconds(f.Lead), WorkMs: inMilliseconds(f.Work),
			BeyondShare: f.Beyond,
		})
	}
	slices.SortFunc(out, func(a, b *weftv1.SchedulerFlow) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetDevice(), b.GetDevice()))
	})
	return out
}

// deviceClass returns the class of the device on which a flow runs.
func (v *stateView) deviceClass(flow sharedsched.FlowID) string {
	for _, f := range v.state.Flows {
		if f.ID != flow {
			continue
		}
		for _, d := range v.state.Devices {
			if d.Name == f.Device {
				return d.Class
			}
		}
	}
	return ""
}

// versions returns the shown versions in the order of the answer: by model, number, and the scheduler's id. A version
// on several devices has an id on each.
func (v *stateView) versions() []namedVersion {
	var out []namedVersion
	for i := range v.state.Versions {
		n := namedVersion{state: &v.state.Versions[i]}
		n.model, n.number = splitName(n.state.Name)
		if !v.shows(n.model) {
			continue
		}
		if m := v.snapshot.Model(n.model); m != nil {
			// The scheduler may still have a version that the catalog has forgotten, and the other way around.
			if known := m.Version(n.number); known != nil {
				n.signature = known.Signature
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b namedVersion) int {
		return cmp.Or(
			strings.Compare(a.model, b.model), cmp.Compare(a.number, b.number), cmp.Compare(a.state.ID, b.state.ID),
		)
	})
	return out
}

// inMilliseconds converts nanoseconds of any kind.
func inMilliseconds[T ~int64](d T) float64 { return float64(d) / 1e6 }

func inMicroseconds(d time.Duration) float64 { return float64(d) / 1e3 }
