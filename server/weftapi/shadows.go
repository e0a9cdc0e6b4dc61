package weftapi

import (
	"context"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/shadow"
)

// Shadows reports how versions in the shadow of others do.
type Shadows interface {
	// Summaries returns how the shadows of a model compare, of all models for "", with the details that are asked for.
	Summaries(model string, detail shadow.Detail) []shadow.Summary
}

// GetShadowSummary implements weftv1.ModelServiceServer. Models whose state the caller may not see are left out. Rows
// of single requests are shown only to callers that may operate the model: they are other callers' outputs.
func (s Catalog) GetShadowSummary(
	ctx context.Context, req *weftv1.GetShadowSummaryRequest,
) (*weftv1.GetShadowSummaryResponse, error) {
	if req.GetModel() != "" {
		if _, err := s.model(req.GetModel()); err != nil {
			return nil, s.Fail(ctx, err, predict.Place{})
		}
	}
	resp := &weftv1.GetShadowSummaryResponse{}
	if s.Shadows == nil {
		return resp, nil
	}
	by := access.CallerOf(ctx)
	detail := shadow.Detail{Fingerprints: req.GetFingerprints(), Worst: req.GetWorst()}
	for _, summary := range s.Shadows.Summaries(req.GetModel(), detail) {
		if !by.Observes(summary.Model) {
			continue
		}
		// The summary has the rows that were asked for in any case; the message leaves out what the caller may not see.
		show := detail
		show.Worst = show.Worst && by.Operates(summary.Model, s.Operated)
		message := shadowMessage(&summary, show)
		message.WorstWithheld = detail.Worst && !show.Worst
		resp.Summaries = append(resp.Summaries, message)
	}
	return resp, nil
}

// shadowMessage converts a summary, with no more details than show says. Times are in milliseconds.
func shadowMessage(s *shadow.Summary, show shadow.Detail) *weftv1.ShadowSummary {
	out := &weftv1.ShadowSummary{
		Model: s.Model, PrimaryVersion: s.PrimaryVersion, ShadowVersion: s.ShadowVersion,
		Offered: s.Offered, Done: s.Done, Dropped: s.Dropped, Failed: s.Failed, Pending: s.Pending, Agreed: s.Agreed,
		Skipped:             s.Skipped,
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
		// Cosines of no request are absent, since 0 would mean that all outputs are orthogonal.
		if o.Cosines > 0 {
			message.MinCosine, message.MeanCosine = &o.MinCosine, &o.MeanCosine
		}
		if o.Print != nil {
			addPrint(message, o.Print, show)
		}
		out.Outputs = append(out.Outputs, message)
	}
	return out
}
