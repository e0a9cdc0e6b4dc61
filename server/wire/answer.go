package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire/elements"
)

// Answer encodes the message that answers a request by hand, without a copy of the outputs, which must be raw. It is
// used for one answer after the other. The zero value is ready.
type Answer struct{ elements.Writer }

// Plain reports whether Encode can write the answer: every output must be raw, and strings have no raw form. Generated
// code encodes the others.
func Plain(result *predict.Result) bool {
	for _, t := range result.Outputs() {
		if t.DType == tensor.String {
			return false
		}
	}
	return true
}

// Encode writes the message that answers a request, a PredictStreamResponse on a stream, else a PredictResponse. It
// uses the memory of the answer before, so that must have been sent or copied. The result must be plain, and its
// outputs must not change until the message is sent.
//
// The numbers are those of the fields in prediction_service.proto. The fields of a message need not be in order, so the
// outputs, which are large, come last.
func (a *Answer) Encode(requestID string, result *predict.Result, stream bool) {
	a.Reset()
	if stream {
		a.Text(1, requestID)
	}
	begin := len(a.Head)
	model := len(a.Head)
	a.Text(1, result.Model)
	// Not by Number: version is in a oneof, which generated code writes even where it is 0.
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

// execution appends the field of ExecutionInfo. Counts go through int32, as they do in Response: the fields are int32,
// and both must write the same bytes.
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
	a.Number(13, int64(protowire.EncodeBool(result.Repeated)))
	a.Number(14, int64(result.Skipped))
	a.Text(15, result.Table)
	a.Wrap(4, begin, 0)
}

// output appends an entry of the map of outputs, whose elements become a value of the writer. The lengths of both
// messages around them are written first, as if the elements were in Head already.
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
