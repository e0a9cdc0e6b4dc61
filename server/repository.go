package server

import (
	"context"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/weftapi"
)

// repository changes which versions of models are served, by the calls of weft.v1: each leaves its line in the log.
type repository struct{ weftapi.Admin }

// Load implements openinference.Repository: it loads the newest version that the model's repository has.
func (r repository) Load(ctx context.Context, model string) error {
	newest, err := r.Residents.Newest(model)
	if err != nil {
		return r.Fail(ctx, err, predict.Place{})
	}
	_, err = r.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: model, Version: newest})
	return err
}

// Unload implements openinference.Repository: it unloads every version that is ready or being loaded. The first that
// cannot be unloaded ends it; the ones before stay unloaded.
func (r repository) Unload(ctx context.Context, model string) error {
	m, err := r.Pipeline.Table().Model(model)
	if err != nil {
		return r.Fail(ctx, err, predict.Place{})
	}
	for _, v := range m.Versions {
		if v.State != catalog.Ready && v.State != catalog.Loading {
			continue
		}
		if _, err := r.UnloadVersion(ctx, &weftv1.UnloadVersionRequest{Model: model, Version: v.Number}); err != nil {
			return err
		}
	}
	return nil
}
