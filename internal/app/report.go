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

// errFaults is the verdict of a check that has printed faults.
var errFaults = errors.New("there are faults, see above")

// misconfigured is the verdict if the settings of the server are wrong by themselves. The command finds
// config.Faults in it and exits with 2. The faults were printed, so that Error does not repeat them.
type misconfigured struct{ faults error }

// Error implements error.
func (*misconfigured) Error() string { return errFaults.Error() }

// Unwrap returns the faults of the settings.
func (m *misconfigured) Unwrap() error { return m.faults }

// report collects the findings of a check. One goroutine uses it.
type report struct {
	Findings

	defaults bool  // settings that are as by default are findings, too
	wrong    error // what is wrong with the settings of the server by themselves
}

// fault reports something that is not served as it should be.
func (r *report) fault(err error) { r.Faults = append(r.Faults, err.Error()) }

// note reports something that is no fault but probably not intended.
func (r *report) note(text string) { r.Notes = append(r.Notes, text) }

// verdict is the error with which the check ends; nil if there is no fault. Notes do not count.
func (r *report) verdict() error {
	switch {
	case r.wrong != nil:
		return &misconfigured{r.wrong}
	case len(r.Faults) > 0:
		return errFaults
	}
	return nil
}

// settings returns settings as YAML: all of them if r.defaults is set, else the ones that differ from their defaults.
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

// listing reports the settings of every model that can be read, and everything that is wrong with the repositories.
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
		if e := m.Elsewhere; e != nil && len(e.Replicas) == 0 {
			r.fault(e)
		} else if e != nil {
			r.note(e.Error())
		}
		if m.Elsewhere != nil {
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
		if cause := hiddenHealth(m.Name); cause != "" {
			r.note("model " + m.Name + ": " + cause)
		}
		for _, note := range slices.Concat(m.Notes, m.Unused) {
			r.note(note)
		}
		for _, note := range m.Manifest.Batching.Notes() {
			r.note(cmp.Or(m.ManifestPath, m.ConfigPath) + ": " + note)
		}
	}
}

// digests reports versions whose files differ from their SHA256SUMS. With load it leaves out the versions that are
// about to be loaded, because loading compares them, too.
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

// versions reports how each version that was to be loaded is served, with its costs, or why it is not.
func (r *report) versions(l modelrepo.Listing, s *catalog.Snapshot, measured sharedsched.State) {
	costs := map[sharedsched.VersionID][]sharedsched.CostState{}
	for _, m := range measured.Versions {
		costs[m.ID] = m.Costs
	}
	for _, m := range l.Models {
		// A model with a selected version could be read, so that listing has added it.
		at := slices.IndexFunc(r.Models, func(f ModelFindings) bool { return f.Name == m.Name })
		served := s.Model(m.Name)
		if served == nil {
			continue
		}
		for _, v := range served.Versions {
			selected := func(of modelrepo.Version) bool { return of.Number == v.Number }
			if !v.StepOnly && !slices.ContainsFunc(m.Selected, selected) { // its fault is in the listing, and reported
				continue
			}
			if v.State != catalog.Ready {
				r.fault(fmt.Errorf("model %s version %d: %w", v.Model, v.Number, faultOf(v)))
				continue
			}
			// A server serves it nevertheless, so that the load did not fail.
			if v.RowCrashed != "" {
				r.fault(fmt.Errorf("model %s version %d: the first made-up row ended its process: %s; a server would serve it "+
					"request by request, and each request like that row would end the process, too: mend the model, or make "+
					"sure that no request is like that", v.Model, v.Number, v.RowCrashed))
			}
			found := describeVersion(v)
			found.Costs = describeCosts(v.Signature, costs[sharedsched.VersionID(v.Scheduler)])
			r.Models[at].Versions = append(r.Models[at].Versions, found)
		}
		r.takeover(served)
	}
}

// takeover notes that the version that answers by default has another signature than the one below it. Clients that
// name no version then fail as soon as it is deployed.
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

// tolerances reports tolerances of shadows for names that are no floating point outputs of theirs. Only the signatures
// of loaded models show that.
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
