// Package tfserving serves the API of TensorFlow Serving, as far as models of ONNX have it. docs/TENSORFLOW_SERVING.md
// lists what each call and field does.
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

// Predictions implements PredictionService.
type Predictions struct {
	serving.UnimplementedPredictionServiceServer
	*transport.Calls
}

// Models implements ModelService.
type Models struct {
	serving.UnimplementedModelServiceServer
	*transport.Calls
}

// Register registers both services.
func Register(g *grpc.Server, c *transport.Calls) {
	serving.RegisterPredictionServiceServer(c.On(g), Predictions{Calls: c})
	serving.RegisterModelServiceServer(c.On(g), Models{Calls: c})
}

// NewRequest implements transport.Predicting: the messages of Predict read themselves, see request.
func (s Predictions) NewRequest(method string) transport.Request {
	if method != "Predict" {
		return nil
	}
	return &request{house: s.Calls}
}

// choiceOf says which version a message asks for in the terms of routing.
func choiceOf(m *serving.ModelSpec) routing.Choice {
	switch c := m.GetVersionChoice().(type) {
	case *serving.ModelSpec_Version:
		return routing.Choice{Version: new(c.Version.GetValue())}
	case *serving.ModelSpec_VersionLabel:
		return routing.Choice{Label: new(c.VersionLabel)}
	}
	return routing.Choice{}
}

func specOf(model string, version int64) *serving.ModelSpec {
	return &serving.ModelSpec{
		Name: model, SignatureName: signatureName,
		VersionChoice: &serving.ModelSpec_Version{Version: wrapperspb.Int64(version)},
	}
}

const (
	// signatureName is that of the only signature of a model.
	signatureName = "serving_default"
	// signatureField is the only field of metadata.
	signatureField = "signature_def"
	methodName     = "tensorflow/serving/predict"
)

// GetModelMetadata implements serving.PredictionServiceServer.
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

func infosOf(specs []tensor.Spec) map[string]*tensorflow.TensorInfo {
	all := make(map[string]*tensorflow.TensorInfo, len(specs))
	for i := range specs {
		all[specs[i].Name] = &tensorflow.TensorInfo{
			Name: specs[i].Name + ":0", Dtype: dataTypes[specs[i].DType], TensorShape: shapeMessage(specs[i].Shape),
		}
	}
	return all
}

var states = map[catalog.State]serving.ModelVersionStatus_State{
	catalog.Loading: serving.ModelVersionStatus_LOADING, catalog.Ready: serving.ModelVersionStatus_AVAILABLE,
	catalog.Unloading: serving.ModelVersionStatus_UNLOADING, catalog.Failed: serving.ModelVersionStatus_END,
}

// unknown is the code of gRPC for errors that no more is said about.
const unknown = 2

// GetModelStatus implements serving.ModelServiceServer.
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
	if choice.Version != nil && len(all.GetModelVersionStatus()) == 0 {
		if _, err := s.Pipeline.Table().Resolve(m.Name, routing.Choice{Version: choice.Version}); err != nil {
			return fail(err)
		}
	}
	return all, nil
}
