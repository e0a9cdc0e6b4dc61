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
	tell := func(level slog.Level, message, path string, err error, attrs ...any) {
		if err == nil {
			return
		}
		faults[path] = err.Error()
		if h.reported[path] != err.Error() {
			h.log.Log(context.Background(), level, message, append(attrs, "path", path, "cause", err)...)
		}
	}
	report := func(path string, err error, attrs ...any) {
		level := slog.LevelError
		if errors.Is(err, modelrepo.ErrCopying) {
			level = slog.LevelInfo // that passes
		}
		tell(level, "a model cannot be served", path, err, attrs...)
	}
	for _, m := range l.Models {
		report(m.Dir, m.Err, "model", m.Name)
		tell(slog.LevelWarn, "model.yaml names what is not there", m.ManifestPath, m.Missing, "model", m.Name)
		for _, v := range m.Versions {
			report(v.Dir, v.Err, "model", m.Name, "version", v.Number)
		}
	}
	if !maps.Equal(h.reported, faults) {
		h.reported = faults
	}
}
