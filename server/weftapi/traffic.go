package weftapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
)

// GetTraffic implements weftv1.ModelServiceServer. Who decided the traffic is its author or, where there is none, its
// source.
func (s Catalog) GetTraffic(ctx context.Context, req *weftv1.GetTrafficRequest) (*weftv1.GetTrafficResponse, error) {
	m, err := s.model(req.GetModel())
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	out := &weftv1.GetTrafficResponse{Traffic: trafficMessage(m.Traffic), WaitsFor: m.TrafficWaitsFor}
	out.DecidedBy = out.GetTraffic().GetSource()
	if t := m.Traffic; t != nil {
		out.DecidedBy = cmp.Or(t.By, t.Source)
		if !t.At.IsZero() {
			out.DecidedAt = timestamppb.New(t.At)
		}
	}
	for _, r := range m.RolledBack {
		out.RolledBack = append(out.RolledBack, &weftv1.RolledBackVersion{
			Version: r.Version, At: timestamppb.New(r.At), By: r.By, Reason: r.Why,
		})
	}
	return out, nil
}

// trafficMessage converts a model's traffic; nil is that of a model whose requests nobody divided.
func trafficMessage(t *catalog.Traffic) *weftv1.Traffic {
	if t == nil {
		return &weftv1.Traffic{Source: "default"}
	}
	out := &weftv1.Traffic{Revision: t.Revision, Source: t.Source}
	for _, slot := range t.Split {
		out.Split = append(out.Split, &weftv1.TrafficSlot{Slot: slot.Name, Version: slot.Version, Weight: slot.Weight})
	}
	for _, shadow := range t.Shadow {
		unit := weftv1.ShadowUnit_SHADOW_UNIT_EPISODE
		if shadow.PerRequest {
			unit = weftv1.ShadowUnit_SHADOW_UNIT_REQUEST
		}
		out.Shadow = append(out.Shadow, &weftv1.TrafficShadow{
			Version: shadow.Version, Sample: shadow.Sample, Unit: unit, Tolerance: shadow.Tolerance,
			Tolerances: shadow.Tolerances,
		})
	}
	return out
}

// trafficOf converts a message to the traffic that it asks for of model m. The error, a *catalog.TrafficError, is for
// faults that only a message can have and for those against the models' signatures. Traffic.Check finds the rest, when
// the traffic is set.
func trafficOf(m *catalog.Model, message *weftv1.Traffic) (*catalog.Traffic, error) {
	t := &catalog.Traffic{Source: "SetTraffic"}
	for i, slot := range message.GetSplit() {
		if !validName.MatchString(slot.GetSlot()) {
			return nil, &catalog.TrafficError{
				Field: fmt.Sprintf("split[%d].slot", i), Want: nameRule,
				Got: strconv.Quote(predict.Clip(slot.GetSlot())),
			}
		}
		t.Split = append(t.Split, catalog.Slot{
			Name: slot.GetSlot(), Version: slot.GetVersion(), Weight: slot.GetWeight(),
		})
	}
	for i, shadow := range message.GetShadow() {
		perRequest, known := shadowUnits[shadow.GetUnit()]
		if !known {
			return nil, &catalog.TrafficError{
				Field: fmt.Sprintf("shadow[%d].unit", i), Want: "SHADOW_UNIT_EPISODE or SHADOW_UNIT_REQUEST",
				Got: shadow.GetUnit().String(),
			}
		}
		t.Shadow = append(t.Shadow, catalog.Shadow{
			Version: shadow.GetVersion(), Sample: shadow.GetSample(), PerRequest: perRequest,
			Tolerance: shadow.GetTolerance(), Tolerances: maps.Clone(shadow.GetTolerances()),
		})
	}
	return t, t.CheckOutputs(m)
}

// shadowUnits has the units that are known, and says whether one is the single request. Unspecified is the episode.
var shadowUnits = map[weftv1.ShadowUnit]bool{
	weftv1.ShadowUnit_SHADOW_UNIT_UNSPECIFIED: false,
	weftv1.ShadowUnit_SHADOW_UNIT_EPISODE:     false,
	weftv1.ShadowUnit_SHADOW_UNIT_REQUEST:     true,
}
