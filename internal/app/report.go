package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// errFaults is the verdict where there was a fault.
var errFaults = errors.New("there are faults, see above")

// report prints the findings of a check, faults to the error stream.
type report struct {
	out, err io.Writer
	defaults bool // settings that are as by default are printed too
	faulty   bool
}

func (r *report) fault(err error) {
	r.faulty = true
	fmt.Fprintln(r.err, err)
}

// note reports something that is no fault but probably not intended.
func (r *report) note(text string) { fmt.Fprintln(r.err, "note: "+text) }

func (r *report) verdict() error {
	if r.faulty {
		return errFaults
	}
	return nil
}

// section prints settings below a heading.
func (r *report) section(heading string, settings, defaults any) {
	text, err := config.PrintChanged(settings, defaults)
	if r.defaults {
		text, err = config.Print(settings)
	}
	switch {
	case err != nil:
		r.fault(err)
	case text == "":
		fmt.Fprintf(r.out, "# %s: all settings are the defaults\n\n", heading)
	default:
		fmt.Fprintf(r.out, "# %s\n%s\n", heading, text)
	}
}

// listing prints every model's settings.
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
		source := m.ManifestPath
		if source == "" {
			source = m.Dir + " (it has no " + modelrepo.ManifestName + ")"
		}
		r.section("model "+m.Name+", "+source, &m.Manifest, modelrepo.Defaults())
		for _, v := range m.Versions {
			if v.Err != nil {
				r.fault(fmt.Errorf("model %s version %d: %w", m.Name, v.Number, v.Err))
			}
		}
		if m.Missing != nil {
			r.fault(m.Missing)
		}
		for _, note := range m.Notes {
			r.note(note)
		}
		for _, note := range m.Manifest.Batching.Notes() {
			r.note(m.ManifestPath + ": " + note)
		}
	}
}

// digests reports versions whose files differ from their SHA256SUMS. Those that are about to be loaded are compared
// then.
func (r *report) digests(l *modelrepo.Listing, required, load bool) {
	for _, m := range l.Models {
		for _, v := range m.Versions {
			if v.Err != nil || load && slices.Contains(m.Selected, v) {
				continue
			}
			if files, err := reads(required)(context.Background(), v); err != nil {
				r.fault(fmt.Errorf("model %s version %d: %w", m.Name, v.Number, err))
			} else if files != nil {
				_ = files.Close() // it was only read
			}
		}
	}
}

// versions prints how each version that was loaded is served, and its costs.
func (r *report) versions(l modelrepo.Listing, s *catalog.Snapshot, measured sharedsched.State) {
	for _, m := range l.Models {
		var alike []*catalog.Version // one after the other
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
			if len(alike) > 0 && describeVersion(alike[0]) != describeVersion(v) {
				r.alike(alike, measured)
				alike = nil
			}
			alike = append(alike, v)
		}
		r.alike(alike, measured)
		r.takeover(s.Model(m.Name))
	}
}

// alike prints versions of a model that are described alike, and the costs of each.
func (r *report) alike(versions []*catalog.Version, measured sharedsched.State) {
	if len(versions) == 0 {
		return
	}
	var numbers []string
	for _, v := range versions {
		numbers = append(numbers, strconv.FormatInt(v.Number, 10))
	}
	of := "version"
	if len(versions) > 1 {
		of = "versions"
	}
	fmt.Fprintf(r.out, "# model %s %s %s, %s", versions[0].Model, of, strings.Join(numbers, ", "),
		describeVersion(versions[0]))
	for i, v := range versions {
		which := ""
		if len(versions) > 1 {
			which = "of version " + numbers[i] + " "
		}
		for _, m := range measured.Versions {
			if m.ID == sharedsched.VersionID(v.Scheduler) {
				printCosts(r.out, which, v.Signature, m.Costs)
			}
		}
	}
	fmt.Fprintln(r.out)
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

// tolerances reports those that are for nothing, which only the signatures of loaded models show.
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
