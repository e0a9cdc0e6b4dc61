package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// report logs what is wrong with the repository itself, each fault once until it changes. The caller holds Host.following.
func (h *Host) report(l modelrepo.Listing) {
	faults := map[string]string{}
	isNews := func(path string, err error) bool {
		if err == nil {
			return false
		}
		faults[path] = err.Error()
		return h.reported[path] != err.Error()
	}
	report := func(path string, err error, attrs ...any) {
		if !isNews(path, err) {
			return
		}
		level := slog.LevelError
		if errors.Is(err, modelrepo.ErrCopying) {
			level = slog.LevelInfo // that passes
		}
		h.log.Log(context.Background(), level, "a model cannot be served", append(attrs, "path", path, "cause", err)...)
	}
	for _, m := range l.Models {
		report(m.Dir, m.Err, "model", m.Name)
		if isNews(m.ManifestPath, m.Missing) {
			h.log.Warn("model.yaml names what is not there", "model", m.Name, "path", m.ManifestPath, "cause", m.Missing)
		}
		for _, v := range m.Versions {
			report(v.Dir, v.Err, "model", m.Name, "version", v.Number)
		}
	}
	if !maps.Equal(h.reported, faults) {
		h.reported = faults
	}
}
