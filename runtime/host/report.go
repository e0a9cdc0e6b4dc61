package host

import (
	"errors"
	"maps"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// report logs what is wrong with the repository itself, each fault once until it changes. The caller holds
// Host.following.
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
		attrs = append(attrs, "path", path, "cause", err)
		if errors.Is(err, modelrepo.ErrCopying) { // that passes
			h.log.Info("files are being copied; they are looked at when that has ended", attrs...)
			return
		}
		h.log.Error("what is in the model repository cannot be served as it is; what was loaded before stays", attrs...)
	}
	for _, m := range l.Models {
		report(m.Dir, m.Err, "model", m.Name)
		if isNews(m.ManifestPath, m.Missing) {
			h.log.Warn("model.yaml names what is not there", "model", m.Name, "path", m.ManifestPath,
				"cause", m.Missing)
		}
		for _, v := range m.Versions {
			report(v.Dir, v.Err, "model", m.Name, "version", v.Number)
		}
	}
	if !maps.Equal(h.reported, faults) {
		h.reported = faults
	}
}
