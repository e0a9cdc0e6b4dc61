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

// request is a PredictRequest on its way. It implements transport.Request and predict.Codec.
type request struct {
	transport.Exchange

	house   *transport.Calls
	message serving.PredictRequest
	lifted  elements.Lifted // the large values of it
	data    mem.BufferSlice // which they refer to
}

// Type implements transport.Message.
func (*request) Type() string { return "tensorflow.serving.PredictRequest" }

// large are the fields tensor_content, float_val and double_val of the values of inputs.
var large = elements.Fields{2: {Within: elements.Fields{2: {Within: elements.Fields{
	4: {List: elements.Raw}, 5: {List: elements.Float}, 6: {List: elements.Double},
}}}}}

// Take implements transport.Message.
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

// Release implements transport.Request. The results are left to the garbage collector: the answer refers to them.
func (r *request) Release() {
	r.Leave()
	r.data.Free()
	r.data = nil
}

// Names implements predict.Codec.
func (r *request) Names() iter.Seq[string] { return maps.Keys(r.message.GetInputs()) }

// Decode implements predict.Codec.
func (r *request) Decode(spec *tensor.Spec) (tensor.Tensor, error) {
	return decode(spec, r.message.GetInputs()[spec.Name], &r.lifted)
}

// Encode implements predict.Codec.
func (r *request) Encode(result *predict.Result) error {
	answer := &serving.PredictResponse{
		ModelSpec: specOf(result.Model, result.Version), Outputs: make(map[string]*tensorflow.TensorProto, result.Len()),
	}
	for spec, t := range result.Outputs() {
		answer.Outputs[spec.Name] = encode(&t)
	}
	r.Answer = answer
	return r.house.CheckSize(proto.Size(answer))
}
