package main

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/hostile"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// protocol is one of several that take the same requests.
type protocol struct {
	predict string // the method
	request func(*weftv1.PredictRequest) proto.Message
	// output returns the elements of an answer's only output; ok is false where it has not one. nil: they are elsewhere.
	output func(answer []byte) (elements []byte, ok bool)
}

var (
	native = &protocol{
		weftv1.PredictionService_Predict_FullMethodName,
		func(q *weftv1.PredictRequest) proto.Message { return q }, nativeOutput,
	}
	protocols = []*protocol{
		native, native,
		{inference.GRPCInferenceService_ModelInfer_FullMethodName, inferRequest, inferOutput},
		{inference.GRPCInferenceService_ModelInfer_FullMethodName, sharedRequest, nil},
		{serving.PredictionService_Predict_FullMethodName, tensorflowRequest, tensorflowOutput},
	}
)

func nativeOutput(message []byte) ([]byte, bool) {
	var answer weftv1.PredictResponse
	if proto.Unmarshal(message, &answer) != nil || len(answer.GetOutputs()) != 1 {
		return nil, false
	}
	return elements(slices.Collect(maps.Values(answer.GetOutputs()))[0]), true
}

// inferRequest has its tensors raw, or all in lists where one of them has no raw form here.
func inferRequest(q *weftv1.PredictRequest) proto.Message {
	m := &inference.ModelInferRequest{ModelName: q.GetModel().GetName(), Id: q.GetRequestId()}
	raw := true
	for _, t := range q.GetInputs() {
		raw = raw && len(t.GetRaw()) > 0
	}
	for _, name := range slices.Sorted(maps.Keys(q.GetInputs())) {
		t := q.GetInputs()[name]
		in := &inference.ModelInferRequest_InferInputTensor{
			Name: name, Shape: t.GetShape(), Datatype: strings.TrimPrefix(t.GetDtype().String(), "DATA_TYPE_"),
		}
		switch {
		case raw:
			m.RawInputContents = append(m.RawInputContents, t.GetRaw())
		case t.GetDtype() == weftv1.DataType_DATA_TYPE_STRING:
			in.Datatype = "BYTES"
			in.Contents = &inference.InferTensorContents{BytesContents: t.GetStringValues()}
		default:
			in.Contents = &inference.InferTensorContents{
				Fp32Contents: t.GetFloatValues(), Int64Contents: t.GetInt64Values(), BoolContents: t.GetBoolValues(),
			}
		}
		m.Inputs = append(m.Inputs, in)
	}
	return m
}

// region is the name of the shared memory, and its size.
const region, regionSize = "region", 1 << 16

// sharedRequest has its raw tensors in shared memory, where they lie over each other, and wants an output there.
func sharedRequest(q *weftv1.PredictRequest) proto.Message {
	m := inferRequest(q).(*inference.ModelInferRequest)
	place := func(size int) map[string]*inference.InferParameter {
		return map[string]*inference.InferParameter{
			"shared_memory_region":    {ParameterChoice: &inference.InferParameter_StringParam{StringParam: region}},
			"shared_memory_byte_size": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(size)}},
		}
	}
	for i, raw := range m.GetRawInputContents() {
		m.Inputs[i].Parameters = place(len(raw))
	}
	m.RawInputContents = nil
	m.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y", Parameters: place(64)}}
	return m
}

func inferOutput(message []byte) ([]byte, bool) {
	var answer inference.ModelInferResponse
	if proto.Unmarshal(message, &answer) != nil || len(answer.GetRawOutputContents()) != 1 {
		return nil, false
	}
	return answer.GetRawOutputContents()[0], true
}

var tensorflowTypes = map[weftv1.DataType]tensorflow.DataType{
	weftv1.DataType_DATA_TYPE_FP32:   tensorflow.DataType_DT_FLOAT,
	weftv1.DataType_DATA_TYPE_FP64:   tensorflow.DataType_DT_DOUBLE,
	weftv1.DataType_DATA_TYPE_FP16:   tensorflow.DataType_DT_HALF,
	weftv1.DataType_DATA_TYPE_INT32:  tensorflow.DataType_DT_INT32,
	weftv1.DataType_DATA_TYPE_INT64:  tensorflow.DataType_DT_INT64,
	weftv1.DataType_DATA_TYPE_UINT8:  tensorflow.DataType_DT_UINT8,
	weftv1.DataType_DATA_TYPE_BOOL:   tensorflow.DataType_DT_BOOL,
	weftv1.DataType_DATA_TYPE_STRING: tensorflow.DataType_DT_STRING,
}

func tensorflowRequest(q *weftv1.PredictRequest) proto.Message {
	m := &serving.PredictRequest{
		ModelSpec: &serving.ModelSpec{Name: q.GetModel().GetName()}, Inputs: map[string]*tensorflow.TensorProto{},
	}
	for name, t := range q.GetInputs() {
		shape := &tensorflow.TensorShapeProto{}
		for _, size := range t.GetShape() {
			shape.Dim = append(shape.Dim, &tensorflow.TensorShapeProto_Dim{Size: size})
		}
		m.Inputs[name] = &tensorflow.TensorProto{
			Dtype: tensorflowTypes[t.GetDtype()], TensorShape: shape, TensorContent: t.GetRaw(), FloatVal: t.GetFloatValues(),
			Int64Val: t.GetInt64Values(), BoolVal: t.GetBoolValues(), StringVal: t.GetStringValues(),
		}
	}
	return m
}

func tensorflowOutput(message []byte) ([]byte, bool) {
	var answer serving.PredictResponse
	if proto.Unmarshal(message, &answer) != nil || len(answer.GetOutputs()) != 1 {
		return nil, false
	}
	t := slices.Collect(maps.Values(answer.GetOutputs()))[0]
	return elements(&weftv1.Tensor{Raw: t.GetTensorContent(), FloatValues: t.GetFloatVal()}), true
}

// echoed reports whether an answer of the echo is what it was asked, bit for bit. data is the answer's one message.
// Some elements have the bytes of a character for which hostile.Encode has sent others.
func (p *protocol) echoed(q *weftv1.PredictRequest, data []byte) bool {
	if len(data) < 5 {
		return false
	}
	y, ok := p.output(data[5:])
	return ok && bytes.Equal(y, hostile.Spoil(elements(q.GetInputs()["x"])))
}

// elements are those of a tensor of fp32.
func elements(t *weftv1.Tensor) []byte {
	out := t.GetRaw()
	for _, f := range t.GetFloatValues() {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
	}
	return out
}
