package residency

import (
	"errors"
	"log/slog"
	"maps"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// report logs the faults of the repository itself, each once until it changes.
func (m *Machine) report(all []ListedModel) {
	faults := map[string]string{}
	isNews := func(path string, err error) bool {
		if err == nil {
			return false
		}
		faults[path] = err.Error()
		return m.reported[path] != err.Error()
	}
	report := func(path string, err error, attrs ...any) {
		if !isNews(path, err) {
			return
		}
		attrs = append(attrs, "path", path, "cause", err)
		if errors.Is(err, modelrepo.ErrCopying) { // that passes
			m.log(Log{slog.LevelInfo, "files being copied", append([]any{"event", "files_copying"}, attrs...)})
			return
		}
		m.log(Log{
			slog.LevelError, "model files faulty",
			append([]any{"event", "model_files_faulty"}, append(attrs, "kept", "what was loaded before")...),
		})
	}
	for _, l := range all {
		report(l.Dir, l.Err, "model", l.Name)
		if isNews(l.ManifestPath, l.Missing) {
			m.log(Log{
				slog.LevelWarn, "manifest names a missing version",
				[]any{"event", "manifest_version_missing", "model", l.Name, "path", l.ManifestPath, "cause", l.Missing},
			})
		}
		for _, v := range l.Versions {
			report(v.Dir, v.Err, "model", l.Name, "version", v.Number)
		}
	}
	if !maps.Equal(m.reported, faults) {
		m.reported = faults
	}
}
