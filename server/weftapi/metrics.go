package weftapi

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

// reportMetrics adds to the message of a report the metrics that the checks compared, how episodes were split between
// the versions, and which were left out.
func reportMetrics(out *weftv1.GateReport, r *rollout.Report) {
	out.Summary = r.Summary
	for i := range r.Metrics {
		out.Metrics = append(out.Metrics, metricMessage(&r.Metrics[i]))
	}
	// Without episodes there is no split to compare with the expected one.
	if s := &r.Split; s.Baseline+s.Candidate > 0 {
		out.Split = &weftv1.EpisodeSplit{
			Baseline: s.Baseline, Candidate: s.Candidate, CandidateExpected: s.Expected, ChiSquare: s.ChiSquare,
			PValue: s.PValue, Mismatch: s.Mismatch,
		}
	}
	for _, e := range r.Excluded {
		out.Excluded = append(out.Excluded, &weftv1.EpisodeExclusion{
			Reason: e.Reason, Baseline: e.Baseline, Candidate: e.Candidate,
		})
	}
}

// metricMessage converts a metric. Its unit is the request and its reference the baseline, unless the metric says
// otherwise. Its interval is always valid: it may be read at any time, as often as one likes.
func metricMessage(m *rollout.Metric) *weftv1.GateMetric {
	out := &weftv1.GateMetric{
		Name: m.Name, Unit: weftv1.MetricUnit_METRIC_UNIT_REQUEST,
		Reference: weftv1.MetricReference_METRIC_REFERENCE_BASELINE,
		Baseline:  m.Baseline, Candidate: m.Candidate,
		BaselineCount: m.BaselineCount, CandidateCount: m.CandidateCount,
		Difference: m.Difference, Low: m.Low, High: m.High, AlwaysValid: true,
		Margin:  m.Margin,
		Verdict: weftv1.MetricVerdict(weftv1.MetricVerdict_value["METRIC_VERDICT_"+string(m.Standing)]),
	}
	if m.OfEpisodes() {
		out.Unit = weftv1.MetricUnit_METRIC_UNIT_EPISODE
	}
	if m.AgainstLimit() {
		out.Reference = weftv1.MetricReference_METRIC_REFERENCE_LIMIT
	}
	return out
}

// historyMessage converts how the interval of the outcome narrowed (points), and when a step was taken or the gate's
// verdict changed (moments).
func historyMessage(h *rollout.History) *weftv1.OutcomeHistory {
	out := &weftv1.OutcomeHistory{}
	for i := range h.Points {
		p := &h.Points[i]
		out.Points = append(out.Points, &weftv1.OutcomePoint{
			At: timestamppb.New(p.At), BaselineCount: p.Baseline, CandidateCount: p.Candidate,
			Difference: p.Difference, Low: p.Low, High: p.High,
		})
	}
	for i := range h.Moments {
		m := &h.Moments[i]
		out.Moments = append(out.Moments, &weftv1.GateMoment{
			At: timestamppb.New(m.At), BaselineCount: m.Baseline, CandidateCount: m.Candidate,
			Verdict: weftv1.Verdict(m.Verdict), Step: m.Step, Percent: m.Percent,
		})
	}
	return out
}
