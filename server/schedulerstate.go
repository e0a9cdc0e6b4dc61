package server

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// GetSchedulerState implements weftv1.ModelServiceServer.
func (s *Server) GetSchedulerState(ctx context.Context, req *weftv1.GetSchedulerStateRequest) (*weftv1.GetSchedulerStateResponse, error) {
	if n := req.GetMaxDecisions(); n < 0 {
		return nil, fail(ctx, &tensor.FieldError{Field: "max_decisions", Want: "0 or more", Got: strconv.Itoa(int(n))}, place{})
	}
	if name := req.GetModel(); name != "" {
		if _, err := s.table().Model(name); err != nil {
			return nil, fail(ctx, err, place{})
		}
	}
	state := s.scheduler.State()
	view := stateView{state: &state, snapshot: s.models.Snapshot(), model: req.GetModel()}
	return &weftv1.GetSchedulerStateResponse{State: view.message(int(req.GetMaxDecisions()))}, nil
}

// stateView puts the scheduler's state, which knows versions by numbers and shapes by bytes, into the words of the API.
type stateView struct {
	state    *sharedsched.State
	snapshot *catalog.Snapshot
	model    string // the only model to show; "" for all
}

func (v *stateView) message(maxDecisions int) *weftv1.SchedulerState {
	out := &weftv1.SchedulerState{Draining: v.state.Draining, QueuedBytes: v.state.QueuedBytes, Flows: v.flows()}
	for _, d := range v.state.Devices {
		out.Devices = append(out.Devices, &weftv1.SchedulerDevice{
			Name: d.Name, DeviceClass: d.Class, Lanes: int32(d.Lanes), InFlight: int32(d.InFlight),
			BusyMs: inMilliseconds(d.Busy), VirtualTimeMs: inMilliseconds(time.Duration(d.VirtualTime)),
		})
	}
	for _, named := range v.versions() {
		out.Queues = append(out.Queues, named.queues()...)
		out.Costs = append(out.Costs, named.costs(v.deviceClass(named.state.Flow))...)
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

func (v *stateView) shows(model string) bool { return v.model == "" || v.model == model }

// flows shows every flow that a shown version belongs to.
func (v *stateView) flows() []*weftv1.SchedulerFlow {
	queued := make(map[sharedsched.FlowID]int)
	for i := range v.state.Versions {
		version := &v.state.Versions[i]
		if model, _ := splitName(version.Name); v.shows(model) {
			queued[version.Flow] += version.Queued
		}
	}
	var out []*weftv1.SchedulerFlow
	for _, f := range v.state.Flows {
		n, shown := queued[f.ID]
		if !shown && v.model != "" {
			continue
		}
		out = append(out, &weftv1.SchedulerFlow{
			Name: f.Name, Device: f.Device, Weight: f.Weight, VirtualTimeMs: inMilliseconds(time.Duration(f.Start)),
			ChargedMs: inMilliseconds(f.Served), QueuedRequests: int32(n),
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

// namedVersion is a version of the state with what it is called.
type namedVersion struct {
	model     string
	number    int64
	state     *sharedsched.VersionState
	signature *tensor.Signature // nil if the version is not in the snapshot (any more)
}

func (v *stateView) versions() []namedVersion {
	var out []namedVersion
	for i := range v.state.Versions {
		n := namedVersion{state: &v.state.Versions[i]}
		n.model, n.number = splitName(n.state.Name)
		if !v.shows(n.model) {
			continue
		}
		if m := v.snapshot.Model(n.model); m != nil {
			if known := m.Version(n.number); known != nil {
				n.signature = known.Signature
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b namedVersion) int {
		return cmp.Or(strings.Compare(a.model, b.model), cmp.Compare(a.number, b.number), cmp.Compare(a.state.ID, b.state.ID))
	})
	return out
}

func (n *namedVersion) queues() []*weftv1.SchedulerQueue {
	var out []*weftv1.SchedulerQueue
	for _, q := range n.state.Queues {
		out = append(out, &weftv1.SchedulerQueue{
			Model: n.model, Version: n.number, ShapeKey: describeKey(n.signature, q.Key), Requests: int32(q.Tasks), Rows: int64(q.Rows),
			InFlight: int32(q.Running), MaxBatchRows: int32(q.MaxRows), MaxQueue: int32(n.state.Settings.MaxQueue),
		})
	}
	return out
}

func (n *namedVersion) costs(class string) []*weftv1.SchedulerCost {
	var out []*weftv1.SchedulerCost
	for _, c := range n.state.Costs {
		shape := describeKey(n.signature, c.ShapeKey)
		for _, e := range c.Entries {
			out = append(out, &weftv1.SchedulerCost{
				Model: n.model, Version: n.number, ShapeKey: shape, BatchSize: int32(e.Rows), DeviceClass: class,
				MedianUs: float64(e.Median.Nanoseconds()) / 1e3, Samples: int32(e.Samples), Cold: !e.Trusted,
			})
		}
	}
	return out
}

// splitName takes a version's name in the scheduler, "model/3", apart. A model's name has no slash.
func splitName(name string) (model string, number int64) {
	model, digits, _ := strings.Cut(name, "/")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return name, 0
	}
	return model, number
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// describeKey puts the key of a queue, or its shape part, into words: the open dimensions as tensor.Signature.ShapeKey lists
// them, then a fingerprint of the values that follow in tensor.Signature.Key.
func describeKey(sig *tensor.Signature, key string) string {
	var parts []string
	if sig != nil {
		for _, spec := range sig.Inputs {
			for d, size := range spec.Shape {
				if size == tensor.Unknown && d != spec.BatchDim && len(key) >= 8 {
					parts = append(parts, fmt.Sprintf("%s[%d]=%d", spec.Name, d, little.Uint64([]byte(key[:8]))))
					key = key[8:]
				}
			}
		}
	}
	if key != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key)) // never fails
		parts = append(parts, fmt.Sprintf("values#%016x", h.Sum64()))
	}
	return strings.Join(parts, ", ")
}
