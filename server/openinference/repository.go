package openinference

import (
	"context"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
)

// Repository changes which versions are served. Its errors are those with which a call ends.
type Repository interface {
	// Load makes the newest version of a model in the repository resident, and returns when it is ready.
	Load(ctx context.Context, model string) error
	// Unload gives all versions of a model up, and returns when their last requests have ended.
	Unload(ctx context.Context, model string) error
}

// states are Triton's names of a version's states.
var states = map[catalog.State]string{
	catalog.Loading: "LOADING", catalog.Ready: "READY", catalog.Failed: "UNAVAILABLE", catalog.Unloading: "UNLOADING",
}

// RepositoryIndex implements inference.GRPCInferenceServiceServer.
func (s *Service) RepositoryIndex(
	ctx context.Context, q *inference.RepositoryIndexRequest,
) (*inference.RepositoryIndexResponse, error) {
	by, index := access.CallerOf(ctx), &inference.RepositoryIndexResponse{}
	for name, m := range s.Pipeline.Snapshot().Models.All() {
		if !by.Sees(name) {
			continue
		}
		for _, v := range m.Versions {
			if q.GetReady() && v.State != catalog.Ready {
				continue
			}
			index.Models = append(index.Models, &inference.RepositoryIndexResponse_ModelIndex{
				Name: name, Version: strconv.FormatInt(v.Number, 10), State: states[v.State],
				Reason: catalog.PublicText(v.Cause),
			})
		}
		// A model without versions, such as one that could not be read, is listed with the reason.
		if len(m.Versions) == 0 && !q.GetReady() {
			index.Models = append(index.Models, &inference.RepositoryIndexResponse_ModelIndex{
				Name: name, State: "UNAVAILABLE", Reason: catalog.PublicText(m.Absence()),
			})
		}
	}
	return index, nil
}

// RepositoryModelLoad implements inference.GRPCInferenceServiceServer: the newest version of the repository is loaded.
// Parameters would bring a configuration or files of a model, which clients may not put into the repository.
func (s *Service) RepositoryModelLoad(
	ctx context.Context, q *inference.RepositoryModelLoadRequest,
) (*inference.RepositoryModelLoadResponse, error) {
	if len(q.GetParameters()) > 0 {
		return nil, s.unsupported(ctx, "a model or a configuration in a request to load",
			"write files into the repository, and load the model without parameters")
	}
	return &inference.RepositoryModelLoadResponse{}, s.change(ctx, q.GetModelName(), Repository.Load)
}

// RepositoryModelUnload implements inference.GRPCInferenceServiceServer: all versions of the model are unloaded.
func (s *Service) RepositoryModelUnload(
	ctx context.Context, q *inference.RepositoryModelUnloadRequest,
) (*inference.RepositoryModelUnloadResponse, error) {
	return &inference.RepositoryModelUnloadResponse{}, s.change(ctx, q.GetModelName(), Repository.Unload)
}

// change loads or unloads a model, on a listener where that may be done. The errors of Repository are made for callers
// already.
func (s *Service) change(ctx context.Context, model string, do func(Repository, context.Context, string) error) error {
	if s.Repository == nil || !s.Operated {
		return s.fail(ctx, &status.ElsewhereError{})
	}
	if err := predict.CheckModel(model); err != nil {
		return s.fail(ctx, err)
	}
	return do(s.Repository, ctx, model)
}
