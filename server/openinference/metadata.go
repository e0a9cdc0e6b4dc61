package openinference

import (
	"context"
	"slices"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// extensions are those of the protocol that Weft has, by Triton's names.
var extensions = []string{
	"model_repository", "model_repository(unload_dependents)", "schedule_policy", "model_configuration",
	"binary_tensor_data", "parameters", "statistics",
	"classification",
}

// shares is a further extension, of servers that let clients register shared memory.
const shares = "system_shared_memory"

// ServerMetadata implements inference.GRPCInferenceServiceServer.
func (s *Service) ServerMetadata(
	context.Context, *inference.ServerMetadataRequest,
) (*inference.ServerMetadataResponse, error) {
	about := &inference.ServerMetadataResponse{Name: s.Name, Version: s.Version, Extensions: extensions}
	if s.Regions != nil {
		about.Extensions = append(slices.Clone(extensions), shares)
	}
	return about, nil
}

// platform is what clients know models of ONNX Runtime by.
const platform = "onnxruntime_onnx"

// platformOf is what clients know a version by: a pipeline is an ensemble to them.
func platformOf(v *catalog.Version) string {
	if len(v.Steps) > 0 {
		return "ensemble"
	}
	return platform
}

// ModelMetadata implements inference.GRPCInferenceServiceServer. It describes the version that a request would get.
// Versions are that one if the caller names it, else all that are ready.
func (s *Service) ModelMetadata(
	ctx context.Context, q *inference.ModelMetadataRequest,
) (*inference.ModelMetadataResponse, error) {
	v, err := s.version(q.GetName(), q.GetVersion())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	m := &inference.ModelMetadataResponse{
		Name: v.Model, Platform: platformOf(v),
		Outputs: metadataOf(v.Signature.Outputs),
	}
	for i, spec := range metadataOf(v.Signature.Inputs) {
		if !stateOf(v).Fills(i) { // as in Triton, a sequence's state is none of its inputs
			m.Inputs = append(m.Inputs, spec)
		}
	}
	if q.GetVersion() != "" {
		m.Versions = []string{strconv.FormatInt(v.Number, 10)}
		return m, nil
	}
	all, err := s.Pipeline.Table().Model(v.Model)
	if err != nil { // it has gone meanwhile
		return nil, s.fail(ctx, err)
	}
	for _, other := range all.Versions {
		if other.State == catalog.Ready {
			m.Versions = append(m.Versions, strconv.FormatInt(other.Number, 10))
		}
	}
	return m, nil
}

// stateOf returns the state that clients are told of. Nobody has asked for what was found: clients that bring it read
// here that it is an input.
func stateOf(v *catalog.Version) *catalog.EpisodeState {
	if v.EpisodeState != nil && v.EpisodeState.Found {
		return nil
	}
	return v.EpisodeState
}

// metadataOf describes inputs or outputs. Unlike in a configuration, shapes have the dimension of rows.
func metadataOf(specs []tensor.Spec) []*inference.ModelMetadataResponse_TensorMetadata {
	all := make([]*inference.ModelMetadataResponse_TensorMetadata, len(specs))
	for i := range specs {
		all[i] = &inference.ModelMetadataResponse_TensorMetadata{
			Name: specs[i].Name, Datatype: datatype(specs[i].DType), Shape: shownShape(&specs[i]),
		}
	}
	return all
}
