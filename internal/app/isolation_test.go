package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/worker"
)

// TestIsolationOfOneModel: a model has a process of its own if its manifest says so, and is loaded again when that
// changes. Where models run in the server, a note says that there is none.
func TestIsolationOfOneModel(t *testing.T) {
	for _, isolation := range []config.Isolation{config.IsolateDevice, config.IsolateNone} {
		t.Run(string(isolation), func(t *testing.T) {
			if err := worker.Supported(); err != nil && isolation != config.IsolateNone {
				t.Skip(err)
			}
			repository := t.TempDir()
			weighted(t, repository, "own", 1, 2, 3, 4)
			weighted(t, repository, "shared", 1, 2, 3, 4)
			weftest.SetManifest(t, repository, "own", "isolation: model")
			r := serveFrom(t, repository, func(a *App) {
				a.Isolation, a.WatchInterval = isolation, config.Duration(100*time.Millisecond)
			})
			r.awaitReady(t)
			ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
			defer cancel()
			version := func(model string) *weftv1.ModelVersion {
				t.Helper()
				m, err := weftv1.NewModelServiceClient(r.conn).GetModel(ctx, &weftv1.GetModelRequest{Name: model})
				if err != nil {
					t.Fatal(err)
				}
				return m.GetModel().GetVersions()[0]
			}
			_, metrics := r.get(t, "/metrics")
			own, shared := strings.Contains(metrics, `worker="cpu own/1"`), strings.Contains(metrics, `worker="cpu"`)
			noted := strings.Contains(strings.Join(version("own").GetSignature().GetNotes(), " "), "isolation: model")
			inServer := isolation == config.IsolateNone
			if own == inServer || shared == inServer || noted != inServer ||
				len(version("shared").GetSignature().GetNotes()) > 0 {
				t.Errorf("a process of its own %t, one of the others %t, noted %t: %v", own, shared, noted, version("own"))
			}
			before := version("own").GetLoadedAt().AsTime()
			weftest.SetManifest(t, repository, "own", "isolation: server")
			weftest.Until(t, "another load", func() bool { return version("own").GetLoadedAt().AsTime() != before })
			if notes := version("own").GetSignature().GetNotes(); len(notes) > 0 {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
