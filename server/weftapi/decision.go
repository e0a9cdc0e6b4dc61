package weftapi

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/sharedsched"
)

// decisionKinds maps the scheduler's kinds of decision to the API's.
var decisionKinds = map[sharedsched.DecisionKind]weftv1.SchedulerDecisionKind{
	sharedsched.Ran:     weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_RAN,
	sharedsched.Refused: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_REFUSED,
	sharedsched.Dropped: weftv1.SchedulerDecisionKind_SCHEDULER_DECISION_KIND_DROPPED,
}

// decisionMessage converts a decision of the scheduler. Numbers has the numbers of its kind, by names that end in their
// unit, so that a reader need not parse Text.
func decisionMessage(
	now sharedsched.Time, model string, number int64, d *sharedsched.Decision,
) *weftv1.SchedulerDecision {
	out := &weftv1.SchedulerDecision{
		Kind: decisionKinds[d.Kind], Age: durationpb.New(now.Sub(d.At)), Model: model, Version: number,
		Requests: 1, Rows: int32(d.Rows), Text: d.String(), Numbers: make(map[string]float64),
	}
	switch d.Kind {
	case sharedsched.Ran:
		out.Requests = int32(d.Tasks)
		out.Reason = strings.ToUpper(d.Flush.String())
		out.Numbers["executed_rows"] = float64(d.Padded)
		out.Numbers["rows_left"] = float64(d.Left)
		out.Numbers["estimate_ms"] = inMilliseconds(d.Estimate.Cost)
		out.Numbers["flow_lead_ms"] = inMilliseconds(d.Lead)
		out.Numbers["slack_ms"] = inMilliseconds(d.Slack)
		out.Numbers["demanding_flows"] = float64(d.Demanding)
		out.Rule, out.Bound = d.Rule.String(), d.Bound.String()
	case sharedsched.Refused:
		out.Reason = d.Refused.Reason.String()
		// A refusal has the numbers of the limit that it met: time, bytes, or requests.
		switch {
		case d.Refused.Reason != sharedsched.RefusedQueueFull:
			out.Numbers["predicted_ms"] = inMilliseconds(d.Refused.Predicted)
			out.Numbers["limit_ms"] = inMilliseconds(d.Refused.Limit)
		case d.Refused.MaxQueuedBytes > 0:
			out.Numbers["queued_bytes"] = float64(d.Refused.QueuedBytes)
			out.Numbers["max_queued_bytes"] = float64(d.Refused.MaxQueuedBytes)
		case d.Refused.MaxQueue > 0:
			out.Numbers["queued"] = float64(d.Refused.Queued)
			out.Numbers["max_queue"] = float64(d.Refused.MaxQueue)
		}
	case sharedsched.Dropped:
		out.Reason = strings.ToUpper(d.Drop.String())
		out.Numbers["waited_ms"] = inMilliseconds(d.Waited)
		// Others are not asked how long they would take; to make room, a request is dropped that may have no limit at all.
		if d.Needs > 0 {
			out.Numbers["left_ms"] = inMilliseconds(d.Had)
			out.Numbers["needed_ms"] = inMilliseconds(d.Needs)
		}
	}
	return out
}
