package server

import (
	"context"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// GetTraffic implements weftv1.ModelServiceServer.
func (s *Server) GetTraffic(ctx context.Context, req *weftv1.GetTrafficRequest) (*weftv1.GetTrafficResponse, error) {
	m, err := s.model(req.GetModel())
	if err != nil {
		return nil, fail(ctx, err, place{})
	}
	return &weftv1.GetTrafficResponse{Traffic: trafficMessage(m.Traffic)}, nil
}

// model returns the model that a message names in its field "model".
func (s *Server) model(name string) (*catalog.Model, error) {
	if name == "" {
		return nil, &tensor.FieldError{Field: "model", Want: "the name of a model", Got: "none"}
	}
	return s.table().Model(name)
}

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
		})
	}
	return out
}

// trafficOf returns the traffic that a message asks for. What is wrong with it is for its Check to say.
func trafficOf(m *weftv1.Traffic) *catalog.Traffic {
	t := &catalog.Traffic{Source: "SetTraffic"}
	for _, slot := range m.GetSplit() {
		t.Split = append(t.Split, catalog.Slot{Name: slot.GetSlot(), Version: slot.GetVersion(), Weight: slot.GetWeight()})
	}
	for _, shadow := range m.GetShadow() {
		t.Shadow = append(t.Shadow, catalog.Shadow{
			Version: shadow.GetVersion(), Sample: shadow.GetSample(), Tolerance: shadow.GetTolerance(),
			PerRequest: shadow.GetUnit() == weftv1.ShadowUnit_SHADOW_UNIT_REQUEST,
		})
	}
	return t
}
