package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
)

// Answer is the encoded message of an answer whose outputs are raw, in pieces: the elements of an output stand behind
// the first At bytes of Head, those of the next output behind the first of its own. The zero value is ready.
type Answer struct {
	Head     []byte
	Elements []Elements
	// Size is how many bytes the message has.
	Size int
}

// Elements is those of an output, which are not copied.
type Elements struct {
	At   int
	Data []byte
}

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
	a.Head, a.Elements, a.Size = a.Head[:0], a.Elements[:0], 0
	if stream {
		a.text(1, requestID)
	}
	begin := len(a.Head)
	model := len(a.Head)
	a.text(1, result.Model)
	a.Head = protowire.AppendTag(a.Head, 2, protowire.VarintType)
	a.Head = protowire.AppendVarint(a.Head, uint64(result.Version))
	a.wrap(2, model, 0)
	a.text(3, requestID)
	a.execution(result)
	for spec, t := range result.Outputs() {
		a.output(spec.Name, &t)
	}
	if stream {
		a.wrap(2, begin, a.Size)
	}
	a.Size += len(a.Head)
}

// execution appends the field of ExecutionInfo.
func (a *Answer) execution(result *predict.Result) {
	begin, o := len(a.Head), result.Outcome()
	a.text(1, result.Slot)
	a.number(2, o.Queue.Microseconds())
	a.number(3, o.Compute.Microseconds())
	a.number(4, int64(int32(o.BatchRequests)))
	a.number(5, int64(int32(o.BatchRows)))
	a.number(6, int64(int32(o.PaddedRows)))
	a.number(7, int64(flushReasons[o.Reason]))
	a.number(8, o.DeviceTime.Microseconds())
	a.text(9, o.Device)
	a.number(10, int64(int32(o.Executions)))
	a.number(11, int64(protowire.EncodeBool(result.Degraded)))
	a.number(12, result.FailedOverFrom)
	a.wrap(4, begin, 0)
}

// output appends an entry of the map of outputs, up to the elements.
func (a *Answer) output(name string, t *tensor.Tensor) {
	entry := len(a.Head)
	a.text(1, name)
	value := len(a.Head)
	a.number(1, int64(dataTypes[t.DType]))
	if shape := len(a.Head); len(t.Shape) > 0 {
		for _, size := range t.Shape {
			a.Head = protowire.AppendVarint(a.Head, uint64(size))
		}
		a.wrap(2, shape, 0)
	}
	if len(t.Data) > 0 {
		a.Head = protowire.AppendTag(a.Head, 3, protowire.BytesType)
		a.Head = protowire.AppendVarint(a.Head, uint64(len(t.Data)))
	}
	a.wrap(2, value, len(t.Data))
	a.wrap(1, entry, len(t.Data))
	a.Elements = append(a.Elements, Elements{At: len(a.Head), Data: t.Data})
	a.Size += len(t.Data)
}

// text appends a field of text, number one of a number: zero values are left out.
func (a *Answer) text(field protowire.Number, value string) {
	if value != "" {
		a.Head = protowire.AppendTag(a.Head, field, protowire.BytesType)
		a.Head = protowire.AppendString(a.Head, value)
	}
}

func (a *Answer) number(field protowire.Number, value int64) {
	if value != 0 {
		a.Head = protowire.AppendTag(a.Head, field, protowire.VarintType)
		a.Head = protowire.AppendVarint(a.Head, uint64(value))
	}
}

// wrap makes what was appended since begin, and so many bytes of elements, the value of a field.
func (a *Answer) wrap(field protowire.Number, begin, elements int) {
	var room [2 * 10]byte
	prefix := protowire.AppendTag(room[:0], field, protowire.BytesType)
	prefix = protowire.AppendVarint(prefix, uint64(len(a.Head)-begin+elements))
	a.Head = append(a.Head, prefix...)
	copy(a.Head[begin+len(prefix):], a.Head[begin:])
	copy(a.Head[begin:], prefix)
	for i := range a.Elements {
		if a.Elements[i].At > begin {
			a.Elements[i].At += len(prefix)
		}
	}
}
