package host

import (
	"maps"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// candidate is a version that is to be loaded.
type candidate struct {
	model    string
	version  modelrepo.Version
	manifest *modelrepo.Manifest
}

func (c *candidate) path() string {
	if c.version.Path != "" {
		return c.version.Path
	}
	return c.version.Dir
}

// report logs what is wrong with the repository itself.
func (h *Host) report(l modelrepo.Listing) {
	for _, m := range l.Models {
		if m.Err != nil {
			h.log.Error("a model cannot be served", "model", m.Name, "path", m.Dir, "cause", m.Err)
		}
		for _, v := range m.Versions {
			if v.Err != nil {
				h.log.Error("a model version cannot be served", "model", m.Name, "version", v.Number, "path", v.Dir, "cause", v.Err)
			}
		}
	}
}

// announce publishes what the listing has, its selected versions as loading, and returns those that are not resident yet.
func (h *Host) announce(l modelrepo.Listing) (fresh []candidate) {
	h.update(func() bool {
		for i := range l.Models {
			listed := &l.Models[i]
			m := h.models[listed.Name]
			if m == nil {
				m = &model{versions: map[int64]*entry{}}
				h.models[listed.Name] = m
			}
			m.labels = maps.Clone(listed.Manifest.Versions.Labels)
			m.cause = ""
			if listed.Err != nil {
				m.cause = listed.Err.Error()
				continue
			}
			for _, v := range listed.Versions {
				if e := m.versions[v.Number]; v.Err != nil && (e == nil || e.public.State == catalog.Failed) {
					m.versions[v.Number] = &entry{public: &catalog.Version{
						Model: listed.Name, Number: v.Number, Path: v.Dir, State: catalog.Failed, Cause: v.Err.Error(),
					}}
				}
			}
			for _, v := range listed.Selected {
				if e := m.versions[v.Number]; e != nil && e.public.State != catalog.Failed {
					continue
				}
				c := candidate{model: listed.Name, version: v, manifest: &listed.Manifest}
				m.versions[v.Number] = &entry{public: &catalog.Version{
					Model: listed.Name, Number: v.Number, Path: c.path(), State: catalog.Loading,
					Weight:        listed.Manifest.Weight,
					TargetLatency: time.Duration(listed.Manifest.TargetLatency),
					MaxLatency:    time.Duration(listed.Manifest.MaxLatency),
				}}
				fresh = append(fresh, c)
			}
		}
		return true
	})
	return fresh
}
