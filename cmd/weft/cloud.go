//go:build cloud

package main

import (
	"context"
	"log/slog"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/cloud"
)

// A binary of `-tags cloud` copies repositories from buckets and registries.
func init() { //nolint:gochecknoinits // only the tag joins them
	openMirror = func(ctx context.Context, url string, s *app.Settings, cache string, log *slog.Logger,
	) (app.Mirror, error) {
		return cloud.Open(ctx, url, cloud.Config{Cache: cache, Name: s.Name, Most: int64(s.MaxUploadBytes), Log: log})
	}
}
