package loadgen

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	oip "github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/wire"
)

// inference is the Open Inference Protocol, version 2, which Triton and the servers of KServe speak, too.
type inference struct{}

func (inference) service() string { return oip.GRPCInferenceService_ServiceDesc.ServiceName }

func (inference) predict() string { return oip.GRPCInferenceService_ModelInfer_FullMethodName }

// about reads the inputs of a model. The version is not known before an answer says it.
func (inference) about(
	ctx context.Context, conn grpc.ClientConnInterface, s *Stream,
) (*weftv1.Signature, string, error) {
	// The call waits for the connection, and so makes it.
	m, err := oip.NewGRPCInferenceServiceClient(conn).ModelMetadata(ctx,
		&oip.ModelMetadataRequest{Name: s.Model, Version: versionOf(s.spec())}, grpc.WaitForReady(true))
	if err != nil {
		return nil, "", err
	}
	signature := &weftv1.Signature{}
	for _, input := range m.GetInputs() {
		spec := &weftv1.TensorSpec{Name: input.GetName(), Dtype: dataTypeOf(input.GetDatatype()), Shape: input.GetShape()}
		// The protocol does not tell which dimension counts rows. The usual one is the first, and open.
		if len(input.GetShape()) > 0 && input.GetShape()[0] < 0 {
			spec.BatchDim = new(int32)
		}
		signature.Inputs = append(signature.Inputs, spec)
	}
	return signature, "", nil
}

// versionOf names a version as the protocol does: "" where none is chosen by number.
func versionOf(m *weftv1.ModelSpec) string {
	if m.GetVersion() == 0 {
		return ""
	}
	return strconv.FormatInt(m.GetVersion(), 10)
}

// message translates a request of weft.v1. What the protocol has no field for travels as parameters; their names are
// the ones that Weft's own server reads. Tensors travel as raw bytes, in the order of the inputs.
func (inference) message(q *weftv1.PredictRequest) (proto.Message, error) {
	m := &oip.ModelInferRequest{
		ModelName: q.GetModel().GetName(), ModelVersion: versionOf(q.GetModel()), Id: q.GetRequestId(),
		Parameters: map[string]*oip.InferParameter{},
	}
	text := func(key, value string) {
		if value != "" {
			m.Parameters[key] = &oip.InferParameter{ParameterChoice: &oip.InferParameter_StringParam{StringParam: value}}
		}
	}
	number := func(key string, value int64) {
		if value != 0 {
			m.Parameters[key] = &oip.InferParameter{ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: value}}
		}
	}
	text("label", q.GetModel().GetLabel())
	text("sequence_id", q.GetEpisodeId())
	number("priority", priorities[q.GetPriority()])
	number("target_latency", q.GetTargetLatency().AsDuration().Microseconds())
	if q.GetEndOfEpisode() {
		m.Parameters["sequence_end"] = &oip.InferParameter{ParameterChoice: &oip.InferParameter_BoolParam{BoolParam: true}}
	}
	for _, output := range q.GetOutputs() {
		m.Outputs = append(m.Outputs, &oip.ModelInferRequest_InferRequestedOutputTensor{Name: output})
	}
	// Maps have no order; a fixed one makes equal requests equal bytes.
	for _, name := range slices.Sorted(maps.Keys(q.GetInputs())) {
		t, err := wire.Tensor(q.GetInputs()[name])
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		m.Inputs = append(m.Inputs, &oip.ModelInferRequest_InferInputTensor{
			Name: name, Datatype: datatypeOf(q.GetInputs()[name].GetDtype()), Shape: t.Shape,
		})
		m.RawInputContents = append(m.RawInputContents, t.Data)
	}
	return m, nil
}

// datatypeOf names an element type as the protocol does, which is as weft.v1 does but for texts.
func datatypeOf(d weftv1.DataType) string {
	if d == weftv1.DataType_DATA_TYPE_STRING {
		return "BYTES"
	}
	return strings.TrimPrefix(d.String(), "DATA_TYPE_")
}

// dataTypeOf is the reverse of datatypeOf. A name that this release does not know becomes the unspecified type.
func dataTypeOf(name string) weftv1.DataType {
	if name == "BYTES" {
		name = "STRING"
	}
	return weftv1.DataType(weftv1.DataType_value["DATA_TYPE_"+name])
}

// priorities are the numbers of priorities in the protocol, where 1 is the highest. The usual one needs no parameter.
var priorities = map[weftv1.Priority]int64{
	weftv1.Priority_PRIORITY_CRITICAL_PLUS: 1, weftv1.Priority_PRIORITY_SHEDDABLE_PLUS: 3,
	weftv1.Priority_PRIORITY_SHEDDABLE: 4,
}

// versionField is the number of ModelInferResponse.model_version.
const versionField = 2

// answer implements protocol. The message differs from that of native, and so does its decoder.
func (inference) answer(into *reply) any { return inferenceReply{into} }

// inferenceReply decodes a ModelInferResponse. It says which version answered, but nothing of the way through the
// server.
type inferenceReply struct{ *reply }

// decode reads the version only: the protocol tells nothing of the way through the server.
func (r inferenceReply) decode(message []byte) error {
	return fieldsOf(message, func(number protowire.Number, value []byte) error {
		if number == versionField {
			r.version = string(value)
		}
		return nil
	})
}
