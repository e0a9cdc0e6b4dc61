package openinference

import (
	"context"
	"math"
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// ModelConfig implements inference.GRPCInferenceServiceServer.
func (s *Service) ModelConfig(
	ctx context.Context, q *inference.ModelConfigRequest,
) (*inference.ModelConfigResponse, error) {
	v, err := s.version(q.GetName(), q.GetVersion())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &inference.ModelConfigResponse{Config: configOf(v)}, nil
}

// configOf says in Triton's terms how a version is served. Where max_batch_size is above 0, dims are without the
// dimension of rows. A version is one instance group, with an instance for each replica.
func configOf(v *catalog.Version) *inference.ModelConfig {
	c := &inference.ModelConfig{
		Name: v.Model, Platform: platformOf(v), Backend: "onnxruntime", DefaultModelFilename: "model.onnx",
		MaxBatchSize: int32(maxBatchSize(v)),
		InstanceGroup: []*inference.ModelInstanceGroup{{
			Name: v.Model, Count: int32(max(1, len(v.Replicas))), Kind: instanceKind(v.Provider),
		}},
		ModelTransactionPolicy: &inference.ModelTransactionPolicy{},
	}
	rows := c.GetMaxBatchSize() > 0
	for i := range v.Signature.MostInputs() {
		if stateOf(v).Fills(i) {
			continue
		}
		spec, optional := v.Signature.Takes(i)
		if optional && rows {
			break // they have none, and all dims are without the dimension of the rows
		}
		c.Input = append(c.Input, &inference.ModelInput{
			Name: spec.Name, DataType: datatypes[spec.DType].config, Dims: dimsOf(spec, rows), Reshape: reshapeOf(spec, rows),
			Optional: optional,
		})
	}
	for i := range v.Signature.Outputs {
		spec := &v.Signature.Outputs[i]
		out := &inference.ModelOutput{
			Name: spec.Name, DataType: datatypes[spec.DType].config, Dims: dimsOf(spec, rows), Reshape: reshapeOf(spec, rows),
		}
		if spec.Shown != nil {
			out.LabelFilename = spec.Shown.LabelFile
		}
		c.Output = append(c.Output, out)
	}
	if len(v.Steps) > 0 {
		// Clients take what has steps for an ensemble, which has none of these.
		c.Backend, c.DefaultModelFilename, c.InstanceGroup = "", "", nil
		c.SchedulingChoice = &inference.ModelConfig_EnsembleScheduling{EnsembleScheduling: stepsOf(v)}
		return c
	}
	if stateOf(v) != nil {
		c.SchedulingChoice = &inference.ModelConfig_SequenceBatching{SequenceBatching: sequencesOf(v, rows)}
		return c
	}
	if v.Batching.Batched {
		b := &inference.ModelDynamicBatching{
			// Level 2 is critical, which requests without a level are, too.
			PriorityLevels: uint64(len(priorities) - 1), DefaultPriorityLevel: 2,
			DefaultQueuePolicy: &inference.ModelQueuePolicy{
				AllowTimeoutOverride: true, MaxQueueSize: uint32(v.Batching.MaxQueue),
				DefaultTimeoutMicroseconds: uint64(v.MaxLatency.Microseconds()),
			},
		}
		for _, size := range v.Batching.AllowedBatchSizes {
			b.PreferredBatchSize = append(b.PreferredBatchSize, int32(size))
		}
		c.SchedulingChoice = &inference.ModelConfig_DynamicBatching{DynamicBatching: b}
	}
	return c
}

// stepsOf says what a pipeline is made of. Triton has no word for a step that is repeated: it is named once.
func stepsOf(v *catalog.Version) *inference.ModelEnsembling {
	all := &inference.ModelEnsembling{}
	for _, s := range v.Steps {
		step := &inference.ModelEnsembling_Step{
			ModelName: s.Model, ModelVersion: s.Version, InputMap: map[string]string{}, OutputMap: map[string]string{},
		}
		for _, in := range s.Inputs {
			step.InputMap[in.Name] = in.Called
		}
		for _, out := range s.Outputs {
			step.OutputMap[out.Name] = out.Called
		}
		all.Step = append(all.Step, step)
	}
	return all
}

// controls are the kinds of inputs that tell a model about a request.
var controls = [...]inference.ModelSequenceBatching_Control_Kind{
	catalog.StartControl: inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_START,
	catalog.EndControl:   inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END,
	catalog.ReadyControl: inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_READY,
	catalog.IDControl:    inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID,
}

// sequencesOf says what a version keeps of its episodes. A window has no output that is as large.
func sequencesOf(v *catalog.Version, rows bool) *inference.ModelSequenceBatching {
	state := v.EpisodeState
	all := &inference.ModelSequenceBatching{
		MaxSequenceIdleMicroseconds: uint64(state.Idle.Microseconds()),
		StrategyChoice: &inference.ModelSequenceBatching_Oldest{Oldest: &inference.ModelSequenceBatching_StrategyOldest{
			MaxCandidateSequences: int32(min(state.MaxEpisodes, math.MaxInt32)),
		}},
	}
	for _, in := range state.Inputs {
		spec := &v.Signature.Inputs[in.Input]
		kept := &inference.ModelSequenceBatching_State{
			InputName: spec.Name, DataType: datatypes[spec.DType].config, Dims: dimsOf(spec, rows),
		}
		if in.Window == 0 {
			kept.OutputName = v.Signature.Outputs[in.Output].Name
		}
		all.State = append(all.State, kept)
	}
	for _, c := range state.Controls {
		spec := &v.Signature.Inputs[c.Input]
		control := &inference.ModelSequenceBatching_Control{Kind: controls[c.Kind], DataType: datatypes[spec.DType].config}
		all.ControlInput = append(all.ControlInput, &inference.ModelSequenceBatching_ControlInput{
			Name: spec.Name, Control: []*inference.ModelSequenceBatching_Control{control},
		})
	}
	return all
}

// maxBatchSize returns the rows of one execution at most. It is 0 where requests share none, or where the first
// dimension of some tensor is not that of the rows: clients then take shapes as they are.
func maxBatchSize(v *catalog.Version) int {
	if !v.Batching.Batched {
		return 0
	}
	first := func(spec tensor.Spec) bool { return spec.BatchDim != 0 }
	if slices.ContainsFunc(v.Signature.Inputs, first) || slices.ContainsFunc(v.Signature.Outputs, first) {
		return 0
	}
	return v.Batching.MaxBatchSize
}

// dimsOf returns the shape as clients see it. With rows it is without their dimension, as Triton has it beside a
// max_batch_size. Of an output whose rank only a run tells there are none.
func dimsOf(spec *tensor.Spec, rows bool) []int64 {
	if shape := shownShape(spec); rows && len(shape) > 0 {
		return shape[1:]
	}
	return shownShape(spec)
}

// reshapeOf returns the model's shape of a tensor where clients see another one, which the configuration then names,
// too; nil: they see the model's.
func reshapeOf(spec *tensor.Spec, rows bool) *inference.ModelTensorReshape {
	switch {
	case !reshapes(spec):
		return nil
	case rows:
		return &inference.ModelTensorReshape{Shape: spec.Shape[1:]}
	}
	return &inference.ModelTensorReshape{Shape: spec.Shape}
}

// instanceKind says on what an execution provider runs.
func instanceKind(provider string) inference.ModelInstanceGroup_Kind {
	if provider == "cuda" || provider == "tensorrt" {
		return inference.ModelInstanceGroup_KIND_GPU
	}
	return inference.ModelInstanceGroup_KIND_CPU
}
