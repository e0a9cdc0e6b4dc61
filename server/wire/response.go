package wire

import (
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// flushReasons maps the scheduler's reasons to the API's. One that is missing, as of a request that never was in a
// batch, is FLUSH_REASON_UNSPECIFIED.
var flushReasons = map[sharedsched.FlushReason]weftv1.FlushReason{
	sharedsched.FlushBudgetReached:           weftv1.FlushReason_FLUSH_REASON_BUDGET_REACHED,
	sharedsched.FlushTimeout:                 weftv1.FlushReason_FLUSH_REASON_TIMEOUT,
	sharedsched.FlushSingleRequestOverBudget: weftv1.FlushReason_FLUSH_REASON_SINGLE_REQUEST_OVER_BUDGET,
	sharedsched.FlushFull:                    weftv1.FlushReason_FLUSH_REASON_FULL,
	sharedsched.FlushDeviceIdle:              weftv1.FlushReason_FLUSH_REASON_DEVICE_IDLE,
	sharedsched.FlushDeadline:                weftv1.FlushReason_FLUSH_REASON_DEADLINE,
	sharedsched.FlushDrain:                   weftv1.FlushReason_FLUSH_REASON_DRAIN,
	sharedsched.FlushUnbatched:               weftv1.FlushReason_FLUSH_REASON_UNBATCHED,
}

// FlushReason converts a reason of the scheduler to the API's.
func FlushReason(r sharedsched.FlushReason) weftv1.FlushReason { return flushReasons[r] }

// Response converts a result to the message that answers a request, with outputs that are raw or in typed lists. The
// message aliases the result.
func Response(requestID string, result *predict.Result, raw bool) *weftv1.PredictResponse {
	// One allocation for the message and the parts that every answer has.
	answer := &struct {
		weftv1.PredictResponse
		model     weftv1.ModelSpec
		version   weftv1.ModelSpec_Version
		execution weftv1.ExecutionInfo
	}{}
	at, o := &result.Place, result.Outcome()
	answer.version.Version = at.Version
	answer.model.Name, answer.model.VersionChoice = at.Model, &answer.version
	x := &answer.execution
	x.Slot, x.Table, x.RoutingDegraded, x.FailedOverFrom = at.Slot, at.Table, at.Degraded, at.FailedOverFrom
	x.QueueUs, x.ComputeUs = o.Queue.Microseconds(), o.Compute.Microseconds()
	x.DeviceUs, x.Device = o.DeviceTime.Microseconds(), o.Device
	x.BatchRequests, x.BatchRows, x.PaddedRows = int32(o.BatchRequests), int32(o.BatchRows), int32(o.PaddedRows)
	x.Executions, x.FlushReason = int32(o.Executions), flushReasons[o.Reason]
	x.RepeatedStep, x.SkippedSteps = result.Repeated, int64(result.Skipped)
	m := &answer.PredictResponse
	m.RequestId, m.Model, m.Execution = requestID, &answer.model, x
	m.Outputs = make(map[string]*weftv1.Tensor, result.Len())
	for spec, t := range result.Outputs() {
		m.Outputs[spec.Name] = Encode(t, raw)
	}
	return m
}

// ResponseMessage converts a recorded result to the message of weft.v1 that answers it; the request may have come by
// another protocol. It is nil if there was no answer. It is a copy, which may be kept.
func ResponseMessage(r *predict.Recorded) *weftv1.PredictResponse {
	if r.Result == nil {
		return nil
	}
	if m, ok := r.Result.Message.(*weftv1.PredictResponse); ok {
		return proto.CloneOf(m)
	}
	return proto.CloneOf(Response(r.Request.ID, r.Result, true))
}
