package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire/elements"
)

// Answer is the encoded message of an answer whose outputs are raw, which are not copied. The zero value is ready.
type Answer struct{ elements.Writer }

// Plain reports whether the answer has a message of raw outputs: strings have no raw form.
func Plain(result *predict.Result) bool {
	for _, t := range result.Outputs() {
		if t.DType == tensor.String {
			return false
		}
	}
	return true
}

// Encode makes the message that answers a request, a PredictStreamResponse on a stream, else a PredictResponse. It uses
// the memory of the answer before. The result must be plain.
func (a *Answer) Encode(requestID string, result *predict.Result, stream bool) {
	a.Reset()
	if stream {
		a.Text(1, requestID)
	}
	begin := len(a.Head)
	model := len(a.Head)
	a.Text(1, result.Model)
	a.Head = protowire.AppendTag(a.Head, 2, protowire.VarintType)
	a.Head = protowire.AppendVarint(a.Head, uint64(result.Version))
	a.Wrap(2, model, 0)
	a.Text(3, requestID)
	a.execution(result)
	for spec, t := range result.Outputs() {
		a.output(spec.Name, &t)
	}
	if stream {
		a.Wrap(2, begin, a.Size)
	}
}

// execution appends the field of ExecutionInfo.
func (a *Answer) execution(result *predict.Result) {
	begin, o := len(a.Head), result.Outcome()
	a.Text(1, result.Slot)
	a.Number(2, o.Queue.Microseconds())
	a.Number(3, o.Compute.Microseconds())
	a.Number(4, int64(int32(o.BatchRequests)))
	a.Number(5, int64(int32(o.BatchRows)))
	a.Number(6, int64(int32(o.PaddedRows)))
	a.Number(7, int64(flushReasons[o.Reason]))
	a.Number(8, o.DeviceTime.Microseconds())
	a.Text(9, o.Device)
	a.Number(10, int64(int32(o.Executions)))
	a.Number(11, int64(protowire.EncodeBool(result.Degraded)))
	a.Number(12, result.FailedOverFrom)
	a.Wrap(4, begin, 0)
}

// output appends an entry of the map of outputs, up to the elements.
func (a *Answer) output(name string, t *tensor.Tensor) {
	entry := len(a.Head)
	a.Text(1, name)
	value := len(a.Head)
	a.Number(1, int64(dataTypes[t.DType]))
	a.Numbers(2, t.Shape)
	if len(t.Data) > 0 {
		a.Announce(3, len(t.Data))
	}
	a.Wrap(2, value, len(t.Data))
	a.Wrap(1, entry, len(t.Data))
	a.Value(t.Data)
}
