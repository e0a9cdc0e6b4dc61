package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/serving"
	"github.com/weftserve/weft/sharedsched"
)

// errFaults is the verdict where there was a fault.
var errFaults = errors.New("there are faults, see above")

// misconfigured is the verdict where the settings are wrong by themselves; which, was said.
type misconfigured struct{ faults error }

// Error implements error.
func (*misconfigured) Error() string { return errFaults.Error() }

// Unwrap returns the faults of the settings.
func (m *misconfigured) Unwrap() error { return m.faults }

// report collects the findings of a check.
type report struct {
	Findings

	defaults bool  // settings that are as by default are findings, too
	wrong    error // what is wrong with the settings of the server by themselves
}

func (r *report) fault(err error) { r.Faults = append(r.Faults, err.Error()) }

// note reports something that is no fault but probably not intended.
func (r *report) note(text string) { r.Notes = append(r.Notes, text) }

func (r *report) verdict() error {
	switch {
	case r.wrong != nil:
		return &misconfigured{r.wrong}
	case len(r.Faults) > 0:
		return errFaults
	}
	return nil
}

// settings returns the settings that are to be told.
func (r *report) settings(all, defaults any) config.Text {
	text, err := config.PrintChanged(all, defaults)
	if r.defaults {
		text, err = config.Print(all)
	}
	if err != nil {
		r.fault(err)
	}
	return config.Text(text)
}

// listing reports every model's settings.
func (r *report) listing(l *modelrepo.Listing) {
	for _, fault := range l.Faults {
		r.fault(fault)
	}
	for i := range l.Models {
		m := &l.Models[i]
		if m.Err != nil {
			r.fault(m.Err)
			continue
		}
		r.Models = append(r.Models, ModelFindings{
			Name: m.Name, Directory: m.Dir, Manifest: m.ManifestPath, Config: m.ConfigPath,
			Settings: r.settings(&m.Manifest, modelrepo.Defaults()), Versions: []VersionFindings{},
		})
		for _, v := range m.Versions {
			if v.Err != nil {
				r.fault(fmt.Errorf("model %s version %d: %w", m.Name, v.Number, v.Err))
			}
		}
		if m.Missing != nil {
			r.fault(m.Missing)
		}
		for _, note := range slices.Concat(m.Notes, m.Unused) {
			r.note(note)
		}
		for _, note := range m.Manifest.Batching.Notes() {
			r.note(cmp.Or(m.ManifestPath, m.ConfigPath) + ": " + note)
		}
	}
}

// digests reports versions whose files differ from their SHA256SUMS. Those that are about to be loaded are compared
// then.
func (r *report) digests(l *modelrepo.Listing, read serving.Reader, load bool) {
	for _, m := range l.Models {
		for _, v := range m.Versions {
			if v.Err != nil || load && slices.Contains(m.Selected, v) {
				continue
			}
			if files, err := read(context.Background(), v, nil); err != nil {
				r.fault(fmt.Errorf("model %s version %d: %w", m.Name, v.Number, err))
			} else if files != nil {
				_ = files.Close() // it was only read
			}
		}
	}
}

// versions reports how each version that was loaded is served, and its costs.
func (r *report) versions(l modelrepo.Listing, s *catalog.Snapshot, measured sharedsched.State) {
	costs := map[sharedsched.VersionID][]sharedsched.CostState{}
	for _, m := range measured.Versions {
		costs[m.ID] = m.Costs
	}
	for _, m := range l.Models {
		at := slices.IndexFunc(r.Models, func(f ModelFindings) bool { return f.Name == m.Name })
		for _, selected := range m.Selected {
			v := s.Model(m.Name).Version(selected.Number)
			if v.State != catalog.Ready {
				r.fault(fmt.Errorf("model %s version %d: %w", v.Model, v.Number, faultOf(v)))
				continue
			}
			if v.RowCrashed != "" {
				r.fault(fmt.Errorf("model %s version %d: the first made-up row ended its process: %s; a server would serve it "+
					"request by request, and each request like that row would end the process, too: mend the model, or make "+
					"sure that no request is like that", v.Model, v.Number, v.RowCrashed))
			}
			found := describeVersion(v)
			found.Costs = describeCosts(v.Signature, costs[sharedsched.VersionID(v.Scheduler)])
			r.Models[at].Versions = append(r.Models[at].Versions, found)
		}
		r.takeover(s.Model(m.Name))
	}
}

// takeover reports a version that answers where clients expect the inputs and outputs of the one below it.
func (r *report) takeover(m *catalog.Model) {
	if m == nil {
		return
	}
	newest := newestAnswers(m)
	if newest == nil {
		return
	}
	before := nextBelow(m, newest)
	if before == nil {
		return
	}
	if how := differs(before.Signature, newest.Signature); how != "" {
		r.note(fmt.Sprintf("model %s: version %d answers requests that name none, and does not take or return what "+
			"version %d does: %s",
			m.Name, newest.Number, before.Number, how))
	}
}

// tolerances reports the tolerances that apply to nothing, which only the signatures of loaded models show.
func (r *report) tolerances(l modelrepo.Listing, s *catalog.Snapshot) {
	for _, m := range l.Models {
		served := s.Model(m.Name)
		if m.Err != nil || served == nil || served.Traffic == nil {
			continue
		}
		if err := served.Traffic.CheckOutputs(served); err != nil {
			r.fault(fmt.Errorf("%s: %w", m.ManifestPath, err))
		}
	}
}
