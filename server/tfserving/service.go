// Package tfserving serves the API of TensorFlow Serving, as far as models of ONNX have it.
// docs/reference/protocols.md#tensorflow-serving lists what each call and field does.
//
// Package transport runs predictions, for which a request reads the message and writes the answer (request.go,
// tensor.go). The other calls are handlers of generated code.
package tfserving

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
)

// Predictions implements PredictionService. Calls that it does not have, such as Classify, are UNIMPLEMENTED.
type Predictions struct {
	serving.UnimplementedPredictionServiceServer
	*transport.Calls
}

// Models implements ModelService, but for HandleReloadConfigRequest: the repository is watched.
type Models struct {
	serving.UnimplementedModelServiceServer
	*transport.Calls
}

// Register registers both services.
func Register(g *grpc.Server, c *transport.Calls) {
	serving.RegisterPredictionServiceServer(c.On(g), Predictions{Calls: c})
	serving.RegisterModelServiceServer(c.On(g), Models{Calls: c})
}

// NewRequest implements transport.Predicting. It returns a request for Predict, which transport then runs instead of a
// generated handler; nil: the method has a handler.
func (s Predictions) NewRequest(method string) transport.Request {
	if method != "Predict" {
		return nil
	}
	return &request{house: s.Calls}
}

// choiceOf converts the part of a message that chooses a version. The zero Choice leaves it to the model's traffic.
func choiceOf(m *serving.ModelSpec) routing.Choice {
	switch c := m.GetVersionChoice().(type) {
	case *serving.ModelSpec_Version:
		return routing.Choice{Version: new(c.Version.GetValue())}
	case *serving.ModelSpec_VersionLabel:
		return routing.Choice{Label: new(c.VersionLabel)}
	}
	return routing.Choice{}
}

// specOf names the version that answered, as answers do.
func specOf(model string, version int64) *serving.ModelSpec {
	return &serving.ModelSpec{
		Name: model, SignatureName: signatureName,
		VersionChoice: &serving.ModelSpec_Version{Version: wrapperspb.Int64(version)},
	}
}

const (
	// signatureName is the name of the only signature of a model, which clients ask for by default.
	signatureName = "serving_default"
	// signatureField is the only field of metadata that clients may ask for, and must.
	signatureField = "signature_def"
	// methodName is what a signature that takes and gives tensors has.
	methodName = "tensorflow/serving/predict"
)

// GetModelMetadata implements serving.PredictionServiceServer. It describes the version that a request with the same
// choice would get now.
func (s Predictions) GetModelMetadata(
	ctx context.Context, q *serving.GetModelMetadataRequest,
) (*serving.GetModelMetadataResponse, error) {
	fail := func(err error) (*serving.GetModelMetadataResponse, error) {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	if err := predict.CheckModel(q.GetModelSpec().GetName()); err != nil {
		return fail(err)
	}
	if asked := q.GetMetadataField(); !slices.Equal(asked, []string{signatureField}) {
		got := "none"
		if len(asked) > 0 {
			got = routing.Quote(asked[0])
		}
		return fail(&tensor.FieldError{Field: "metadata_field", Want: signatureField, Got: got})
	}
	route, err := s.Pipeline.Table().Resolve(q.GetModelSpec().GetName(), choiceOf(q.GetModelSpec()))
	if err != nil {
		return fail(err)
	}
	v := route.Version
	signatures, err := anypb.New(&serving.SignatureDefMap{SignatureDef: map[string]*tensorflow.SignatureDef{
		signatureName: {
			Inputs: infosOf(v.Signature.Inputs), Outputs: infosOf(v.Signature.Outputs), MethodName: methodName,
		},
	}})
	if err != nil {
		return fail(err)
	}
	return &serving.GetModelMetadataResponse{
		ModelSpec: specOf(v.Model, v.Number), Metadata: map[string]*anypb.Any{signatureField: signatures},
	}, nil
}

// infosOf describes inputs or outputs. Names have the form of a tensor in a graph of TensorFlow, "x:0", as clients
// expect; requests use the keys of the map.
func infosOf(specs []tensor.Spec) map[string]*tensorflow.TensorInfo {
	all := make(map[string]*tensorflow.TensorInfo, len(specs))
	for i := range specs {
		all[specs[i].Name] = &tensorflow.TensorInfo{
			Name: specs[i].Name + ":0", Dtype: dataTypes[specs[i].DType], TensorShape: shapeMessage(specs[i].Shape),
		}
	}
	return all
}

// states maps the states of the catalog to the API's. A version that failed is END, since there is no state for it; its
// status says why.
var states = map[catalog.State]serving.ModelVersionStatus_State{
	catalog.Loading: serving.ModelVersionStatus_LOADING, catalog.Ready: serving.ModelVersionStatus_AVAILABLE,
	catalog.Unloading: serving.ModelVersionStatus_UNLOADING, catalog.Failed: serving.ModelVersionStatus_END,
}

// unknown is the number of gRPC's code UNKNOWN, which a failed version's status has beside its text.
const unknown = 2

// GetModelStatus implements serving.ModelServiceServer. It shows the version that is asked for, by number or by label,
// or else all, the newest first.
func (s Models) GetModelStatus(
	ctx context.Context, q *serving.GetModelStatusRequest,
) (*serving.GetModelStatusResponse, error) {
	fail := func(err error) (*serving.GetModelStatusResponse, error) {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	if err := predict.CheckModel(q.GetModelSpec().GetName()); err != nil {
		return fail(err)
	}
	m, err := s.Pipeline.Table().Model(q.GetModelSpec().GetName())
	if err != nil {
		return fail(err)
	}
	choice := choiceOf(q.GetModelSpec())
	if choice.Label != nil {
		// Looked up here, as Resolve may refuse a version that is not ready, and its state is what is asked for.
		number, is := m.Labels[*choice.Label]
		if !is {
			if _, err := s.Pipeline.Table().Resolve(m.Name, choice); err != nil {
				return fail(err)
			}
		}
		choice.Version = &number
	}
	all := &serving.GetModelStatusResponse{}
	for _, v := range slices.Backward(m.Versions) {
		if choice.Version != nil && *choice.Version != v.Number {
			continue
		}
		status := &serving.ModelVersionStatus{Version: v.Number, State: states[v.State], Status: &serving.StatusProto{}}
		if v.State == catalog.Failed {
			status.Status = &serving.StatusProto{
				ErrorCode: unknown, ErrorMessage: catalog.PublicText(v.Cause),
			}
		}
		all.ModelVersionStatus = append(all.ModelVersionStatus, status)
	}
	if choice.Version != nil && len(all.GetModelVersionStatus()) == 0 { // Resolve says why there is none
		if _, err := s.Pipeline.Table().Resolve(m.Name, routing.Choice{Version: choice.Version}); err != nil {
			return fail(err)
		}
	}
	return all, nil
}
