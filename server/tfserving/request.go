package tfserving

import (
	"iter"
	"maps"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/wire/elements"
)

// request carries a PredictRequest from the bytes of its message to the message of its answer. It implements
// transport.Request and predict.Codec. Package transport calls Take, then Decode for each input and Encode for the
// answer, and Release at the end, one at a time.
//
// Unlike the requests of the other protocols it is not pooled: a new one is made for each call, so no value of another
// caller can be in it.
type request struct {
	transport.Exchange

	house   *transport.Calls
	message serving.PredictRequest
	lifted  elements.Lifted // the large values of message, which has their indexes
	data    mem.BufferSlice // the buffers of gRPC that they refer to; nil: it was released, or nothing came
}

// Type implements transport.Message.
func (*request) Type() string { return "tensorflow.serving.PredictRequest" }

// large are the large values of a PredictRequest: in the entries of the map inputs (2), of their values (2),
// tensor_content (4), float_val (5) and double_val (6). Lists of whole numbers are decoded by generated code.
var large = elements.Fields{2: {Within: elements.Fields{2: {Within: elements.Fields{
	4: {List: elements.Raw}, 5: {List: elements.Float}, 6: {List: elements.Double},
}}}}}

// Take implements transport.Message. It keeps its reference to the data until Release. A signature that no model has
// becomes the request's Fault, with which the pipeline refuses it.
func (r *request) Take(data mem.BufferSlice) error {
	r.data = data
	pieces := make([][]byte, len(data))
	for i, b := range data {
		pieces[i] = b.ReadOnlyData()
	}
	if err := r.lifted.Unmarshal(pieces, &r.message, large); err != nil {
		return err
	}
	m := r.message.GetModelSpec()
	r.Request = predict.Request{
		Model: m.GetName(), Choice: choiceOf(m), Outputs: r.message.GetOutputFilter(), Inputs: len(r.message.GetInputs()),
		Codec: r,
	}
	if name := m.GetSignatureName(); name != "" && name != signatureName {
		r.Fault = &tensor.FieldError{
			Field: "model_spec.signature_name", Want: signatureName + ", or none: models of ONNX have one signature",
			Got: routing.Quote(name),
		}
	}
	return nil
}

// Release implements transport.Request. Inputs may lie in data, so nothing may read them any more. The results are left
// to the garbage collector: the answer refers to them, and gRPC encodes it later.
func (r *request) Release() {
	r.Leave()
	r.data.Free()
	r.data = nil
}

// Names implements predict.Codec.
func (r *request) Names() iter.Seq[string] { return maps.Keys(r.message.GetInputs()) }

// Decode implements predict.Codec. An input that did not come is a message of nil, whose dtype is none.
func (r *request) Decode(spec *tensor.Spec) (tensor.Tensor, error) {
	return decode(spec, r.message.GetInputs()[spec.Name], &r.lifted)
}

// Encode implements predict.Codec. The answer is encoded by generated code, which copies each output. Its size is
// checked first, since gRPC would refuse to send a larger one.
func (r *request) Encode(result *predict.Result) error {
	answer := &serving.PredictResponse{
		ModelSpec: specOf(result.Model, result.Version), Outputs: make(map[string]*tensorflow.TensorProto, result.Len()),
	}
	for spec, t := range result.Outputs() {
		answer.Outputs[spec.Name] = encode(&t)
	}
	r.Answer, r.Table = answer, result.Table
	return r.house.CheckSize(proto.Size(answer))
}
