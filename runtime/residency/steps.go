package residency

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// A pipeline whose steps are requests by themselves asks versions of other models. They are resident as long as it is,
// or is to be, whatever their own policy selects. For direct callers of their models a pipeline changes nothing: a
// version that would not be there without pipelines is StepOnly.

// step names a version that pipelines ask.
type step struct {
	model  string
	number int64
}

// staged returns the pipelines of the model that ask their steps: the ones that are to be resident, and the ones that
// are, or answer their last requests. One that is being replaced is there twice.
func (m *Model) staged() []Candidate {
	all := m.wanted()
	for _, v := range m.Versions {
		if v.Resident != nil {
			all = append(all, v.Resident.Of)
		}
	}
	return slices.DeleteFunc(all, func(c Candidate) bool {
		return c.Version.Pipeline == nil || !c.Version.Pipeline.Staged()
	})
}

// ask takes up which steps the pipelines of the named models ask now, and has the models converge whose steps they are,
// where that has changed.
func (m *Machine) ask(names map[string]bool) {
	if m.closing {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		model := m.models[name]
		if model == nil {
			continue
		}
		before := model.asks
		model.asks = nil
		for _, c := range model.staged() {
			for _, s := range c.Version.Pipeline.Steps {
				if model.asks == nil {
					model.asks = map[step]bool{}
				}
				model.asks[step{s.Model, s.Version}] = true
			}
		}
		for s := range before {
			if !model.asks[s] {
				m.askFor(s, -1)
			}
		}
		for s := range model.asks {
			if !before[s] {
				m.askFor(s, 1)
			}
		}
	}
}

// askFor counts the models that ask a step.
func (m *Machine) askFor(s step, change int) {
	if m.asked[s] += change; m.asked[s] == 0 {
		delete(m.asked, s)
	}
	if of := m.models[s.model]; of != nil {
		of.showWanted()
		m.touch(of, nil)
	}
}

// isStep reports whether pipelines ask a version of the model. What has become a pipeline itself is no step any more.
func (m *Model) isStep(v *modelrepo.Version) bool {
	return v.Pipeline == nil && m.asked[step{m.Name, v.Number}] > 0
}

// AskedBy names the pipelines that ask a version as a step and take requests, answer their last ones, or are being
// loaded.
func (m *Machine) AskedBy(model string, number int64) (all []string) {
	if m.asked[step{model, number}] == 0 {
		return nil
	}
	for _, asks := range m.models {
		for _, c := range asks.staged() {
			if v := asks.Versions[c.Version.Number]; v == nil || v.State == Failed {
				continue
			}
			if slices.ContainsFunc(c.Version.Pipeline.Steps,
				func(s modelrepo.Step) bool { return s.Model == model && s.Version == number }) {
				all = append(all, fmt.Sprintf("pipeline %q version %d", c.Model, c.Version.Number))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all) // one that is being replaced may ask it before and after
}

// resolveStepOnly derives which versions are there only because pipelines ask them. One that answered direct callers
// becomes so when it would go if nobody asked it, and stays so until it is wanted for itself.
func (m *Model) resolveStepOnly() {
	for n, v := range m.Versions {
		if !v.StepOnly && !m.isStep(&v.Of.Version) {
			continue
		}
		own := m.own()
		only := !among(own, n) && len(m.NamedBy(n)) == 0
		if only && !v.StepOnly && v.latest > 0 {
			g := m.gaps(own)
			only = g.canSpare(n, m.listed == nil || numbered(m.listed, n) == nil)
		}
		if only != v.StepOnly {
			v.StepOnly = only
			v.touch()
		}
	}
}
