package weftapi

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire"
)

// ListModels implements weftv1.ModelServiceServer. A model that the caller may know of, but whose state it may not see,
// is listed by its name only.
func (s Catalog) ListModels(ctx context.Context, _ *weftv1.ListModelsRequest) (*weftv1.ListModelsResponse, error) {
	resp, by := &weftv1.ListModelsResponse{}, access.CallerOf(ctx)
	for name, m := range s.snapshot().Models.All() {
		switch {
		case by.Observes(name):
			resp.Models = append(resp.Models, s.withEpisodes(modelMessage(m)))
		case by.Sees(name):
			resp.Models = append(resp.Models, &weftv1.Model{Name: name})
		}
	}
	return resp, nil
}

// GetModel implements weftv1.ModelServiceServer.
func (s Catalog) GetModel(ctx context.Context, req *weftv1.GetModelRequest) (*weftv1.GetModelResponse, error) {
	if req.GetName() == "" {
		err := &tensor.FieldError{Field: "name", Want: "the name of a model", Got: "none"}
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	m, err := s.table().Model(req.GetName())
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	return &weftv1.GetModelResponse{Model: s.withEpisodes(modelMessage(m))}, nil
}

// withEpisodes adds what the server keeps of a model's episodes now.
func (s Catalog) withEpisodes(m *weftv1.Model) *weftv1.Model {
	live, bytes := s.Pipeline.EpisodesOf(m.GetName())
	m.LiveEpisodes, m.StateBytes = int64(live), bytes
	return m
}

// GetModelMetadata implements weftv1.PredictionServiceServer. It shows the version that a request with the same choice
// would get now.
func (s Predictions) GetModelMetadata(
	ctx context.Context, req *weftv1.GetModelMetadataRequest,
) (*weftv1.GetModelMetadataResponse, error) {
	if err := predict.CheckModel(req.GetModel().GetName()); err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	table := s.table()
	route, err := table.Resolve(req.GetModel().GetName(), wire.Choice(req.GetModel()))
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	v := route.Version
	resp := &weftv1.GetModelMetadataResponse{
		Model:         resolvedSpec(v),
		Signature:     signatureMessage(v.Signature),
		Batching:      batchingMessage(&v.Batching, read(v)),
		MaxLatency:    durationMessage(v.MaxLatency),
		TargetLatency: durationMessage(v.TargetLatency),
	}
	// From the same table, so that labels and versions are those by which the route was found.
	m, err := table.Model(v.Model)
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	resp.Labels = m.Labels
	for _, other := range m.Versions {
		if other.State == catalog.Ready {
			resp.ReadyVersions = append(resp.ReadyVersions, other.Number)
		}
	}
	return resp, nil
}

// modelMessage converts a model with all its versions. Texts about failures go through catalog.PublicText, here and
// below: they may name files of this machine.
func modelMessage(m *catalog.Model) *weftv1.Model {
	out := &weftv1.Model{Name: m.Name, Labels: m.Labels, Failure: catalog.PublicText(m.Absence())}
	for _, v := range m.Versions {
		out.Versions = append(out.Versions, versionMessage(v))
	}
	return out
}

// versionStates maps the states of the catalog to the API's.
var versionStates = map[catalog.State]weftv1.VersionState{
	catalog.Loading:   weftv1.VersionState_VERSION_STATE_LOADING,
	catalog.Ready:     weftv1.VersionState_VERSION_STATE_READY,
	catalog.Failed:    weftv1.VersionState_VERSION_STATE_FAILED,
	catalog.Unloading: weftv1.VersionState_VERSION_STATE_UNLOADING,
}

// versionMessage converts a version. The numbers that change while it is served are read once, by read.
func versionMessage(v *catalog.Version) *weftv1.ModelVersion {
	out := &weftv1.ModelVersion{
		Version:       v.Number,
		State:         versionStates[v.State],
		Failure:       catalog.PublicText(v.Cause),
		Device:        v.Device,
		Weight:        v.Weight,
		Provider:      v.Provider,
		MaxLatency:    durationMessage(v.MaxLatency),
		TargetLatency: durationMessage(v.TargetLatency),
		Scarcity:      catalog.PublicText(v.Scarce),
		Digest:        v.Digest,
		Stalled:       catalog.PublicText(v.Stalled),
		StepOnly:      v.StepOnly,
	}
	for _, s := range v.Steps {
		out.Steps = append(out.Steps, &weftv1.ModelStep{
			Name: s.Name, Model: s.Model, Version: s.Version, Repeat: int32(s.Repeat), Condition: s.When,
			Separate: s.Separate,
		})
	}
	if v.EpisodeState != nil {
		for _, in := range v.EpisodeState.Inputs {
			kept := &weftv1.KeptInput{
				Input: v.Signature.Inputs[in.Input].Name, Window: int32(in.Window), RowBytes: int64(len(in.Initial.Data)),
			}
			if in.Output >= 0 {
				kept.Output = v.Signature.Outputs[in.Output].Name
			}
			out.KeptInputs = append(out.KeptInputs, kept)
		}
	}
	if v.Loading != nil {
		out.Loading = loadingMessage(v.Loading())
	}
	live := read(v)
	out.Crashes = crashesMessage(&live.Crashes)
	for i, r := range v.Replicas {
		// Live has an entry for each replica, or none: a version that is not resident has no numbers.
		replica := &weftv1.ModelReplica{Device: r.Device, Provider: r.Provider}
		if i < len(live.Memory) {
			replica.DeviceMemoryBytes = max(0, live.Memory[i]) // -1: the engine does not say
		}
		replica.Restarting = i < len(live.Restarting) && live.Restarting[i]
		out.Replicas = append(out.Replicas, replica)
	}
	// Before a version was opened nothing is known of its signature.
	if v.Signature != nil {
		out.Signature = signatureMessage(v.Signature)
		out.Batching = batchingMessage(&v.Batching, live)
	}
	out.LoadedAt = timeMessage(v.LoadedAt)
	return out
}

// loadStages maps the stages of loading to the API's.
var loadStages = map[catalog.Stage]weftv1.LoadStage{
	catalog.StageWaiting:   weftv1.LoadStage_LOAD_STAGE_WAITING,
	catalog.StageCopying:   weftv1.LoadStage_LOAD_STAGE_COPYING,
	catalog.StageOpening:   weftv1.LoadStage_LOAD_STAGE_OPENING,
	catalog.StageProving:   weftv1.LoadStage_LOAD_STAGE_PROVING,
	catalog.StageWarmingUp: weftv1.LoadStage_LOAD_STAGE_WARMING_UP,
}

func loadingMessage(l catalog.LoadProgress) *weftv1.LoadProgress {
	return &weftv1.LoadProgress{Stage: loadStages[l.Stage], Done: l.Done, Total: l.Of, Since: timeMessage(l.Since)}
}

// crashesMessage converts what is known of a version's crashes; nil: there were none. Deaths are of processes, and
// Proven counts requests that were found to be poison.
func crashesMessage(c *catalog.Crashes) *weftv1.ModelCrashes {
	if c.Deaths == 0 && c.Proven == 0 && c.Remembered == 0 {
		return nil
	}
	return &weftv1.ModelCrashes{
		Deaths: int64(c.Deaths), LatestDeathAt: timeMessage(c.DeathAt), LatestDeath: catalog.PublicText(c.Death),
		Proven: int64(c.Proven), LatestProvenAt: timeMessage(c.ProvenAt), LatestProven: catalog.PublicText(c.Proof),
		RememberedRequests: int32(c.Remembered),
	}
}

func signatureMessage(s *tensor.Signature) *weftv1.Signature {
	out := &weftv1.Signature{Inputs: specMessages(s.Inputs), Outputs: specMessages(s.Outputs)}
	for _, note := range s.Notes {
		out.Notes = append(out.Notes, catalog.PublicText(note))
	}
	return out
}

// specMessages converts the inputs or outputs of a signature. BatchDim is absent where a tensor has no rows: 0 is a
// dimension.
func specMessages(specs []tensor.Spec) []*weftv1.TensorSpec {
	out := make([]*weftv1.TensorSpec, len(specs))
	for i, spec := range specs {
		out[i] = &weftv1.TensorSpec{
			Name: spec.Name, Dtype: wire.DataType(spec.DType), Shape: spec.Shape, DimNames: spec.DimNames,
		}
		if spec.BatchDim != tensor.NoBatch {
			out[i].BatchDim = new(int32(spec.BatchDim))
		}
	}
	return out
}

// batchingProofs maps the ways in which rows were proven independent to the API's.
var batchingProofs = map[catalog.Proof]weftv1.BatchingProof{
	catalog.ProofNone:      weftv1.BatchingProof_BATCHING_PROOF_NONE,
	catalog.ProofStructure: weftv1.BatchingProof_BATCHING_PROOF_STRUCTURE,
	catalog.ProofExamples:  weftv1.BatchingProof_BATCHING_PROOF_EXAMPLES,
	catalog.ProofTrusted:   weftv1.BatchingProof_BATCHING_PROOF_TRUSTED,
}

// batchingMessage converts how a version is batched, with the numbers of audits so far.
func batchingMessage(b *catalog.Batching, live catalog.Live) *weftv1.BatchingFacts {
	out := &weftv1.BatchingFacts{
		Batched:        b.Batched,
		Reason:         catalog.PublicText(b.Reason),
		MaxDifference:  b.MaxDifference,
		MaxBatchSize:   int32(b.MaxBatchSize),
		MaxRequestRows: int32(b.MaxRequestRows),
		MaxQueue:       int32(b.MaxQueue),
		Proof:          batchingProofs[b.Proof],
		Obstacle:       catalog.PublicText(b.Obstacle),
	}
	out.AuditShare, out.AuditedRows, out.AuditDifferences = b.AuditShare, int64(live.Audited), int64(live.Different)
	for _, size := range b.AllowedBatchSizes {
		out.AllowedBatchSizes = append(out.AllowedBatchSizes, int32(size))
	}
	return out
}

// durationMessage leaves out a zero, which means that there is none.
func durationMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// timeMessage leaves out a zero, which means that it never was.
func timeMessage(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// resolvedSpec names a version.
func resolvedSpec(v *catalog.Version) *weftv1.ModelSpec {
	return &weftv1.ModelSpec{Name: v.Model, VersionChoice: &weftv1.ModelSpec_Version{Version: v.Number}}
}

// read reads a version's counters; those of one that is not resident are 0.
func read(v *catalog.Version) (l catalog.Live) {
	if v.Live != nil {
		l = v.Live()
	}
	return l
}
