package server

import (
	"context"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/shadow"
)

// Shadows runs requests once more on other versions, in spare time.
type Shadows interface {
	// Offer never blocks and never fails: what there is no room for is dropped and counted.
	Offer(shadow.Offer)
	// Summaries returns how the shadows of a model compare, of all models for "".
	Summaries(model string) []shadow.Summary
}

// shadow offers an answered call to the versions in its shadow.
func (s *Server) shadow(req *weftv1.PredictRequest, call *catalog.Call, route *routing.Route) {
	if len(route.Shadows) == 0 || s.config.Shadows == nil {
		return
	}
	m := s.models.Snapshot().Model(call.Version.Model)
	if m == nil {
		return
	}
	o := shadow.Offer{Primary: call, Slot: route.Slot, RequestID: req.GetRequestId(), Episode: req.GetEpisodeId()}
	for _, target := range route.Shadows {
		if v := m.Version(target.Version); v != nil && v.State == catalog.Ready {
			o.Shadows = append(o.Shadows, shadow.Target{Version: v, Shadow: target})
		}
	}
	if len(o.Shadows) > 0 {
		s.config.Shadows.Offer(o)
	}
}

// GetShadowSummary implements weftv1.ModelServiceServer.
func (s *Server) GetShadowSummary(ctx context.Context, req *weftv1.GetShadowSummaryRequest) (*weftv1.GetShadowSummaryResponse, error) {
	if req.GetModel() != "" {
		if _, err := s.model(req.GetModel()); err != nil {
			return nil, fail(ctx, err, place{})
		}
	}
	resp := &weftv1.GetShadowSummaryResponse{}
	if s.config.Shadows == nil {
		return resp, nil
	}
	for _, summary := range s.config.Shadows.Summaries(req.GetModel()) {
		resp.Summaries = append(resp.Summaries, shadowMessage(&summary))
	}
	return resp, nil
}

func shadowMessage(s *shadow.Summary) *weftv1.ShadowSummary {
	out := &weftv1.ShadowSummary{
		Model: s.Model, PrimaryVersion: s.PrimaryVersion, ShadowVersion: s.ShadowVersion,
		Offered: s.Offered, Done: s.Done, Dropped: s.Dropped, Failed: s.Failed, Pending: s.Pending, Agreed: s.Agreed,
		PrimaryComputeMsP50: float64(s.PrimaryComputeP50) / float64(time.Millisecond),
		PrimaryComputeMsP99: float64(s.PrimaryComputeP99) / float64(time.Millisecond),
		ShadowComputeMsP50:  float64(s.ShadowComputeP50) / float64(time.Millisecond),
		ShadowComputeMsP99:  float64(s.ShadowComputeP99) / float64(time.Millisecond),
		Failures:            s.Failures,
	}
	for _, o := range s.Outputs {
		message := &weftv1.ShadowOutput{
			Name: o.Name, MaxAbsolute: o.MaxAbsolute, MaxRelative: o.MaxRelative,
			ArgmaxAgreement: o.ArgmaxAgreement, Agreed: o.Agreed, Mismatched: o.Mismatched,
		}
		if o.Cosines > 0 {
			message.MinCosine, message.MeanCosine = &o.MinCosine, &o.MeanCosine
		}
		out.Outputs = append(out.Outputs, message)
	}
	return out
}
