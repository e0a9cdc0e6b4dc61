package modelrepo

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/inference"
)

// newest is Triton's number for the newest version. Which one that is, is settled when the repository is read.
const newest = -1

// ensemble maps an ensemble to a pipeline. Its steps may stand in any order, and say themselves how each of their
// tensors is called in the ensemble.
func (t *tritonConfig) ensemble() {
	const path = "ensemble_scheduling"
	all := t.c.GetEnsembleScheduling().GetStep()
	for _, field := range []string{"model_name", "model_version", "input_map", "output_map"} {
		for i := range all {
			t.told[fmt.Sprintf("%s.step[%d].%s", path, i, field)] = true
		}
	}
	e := &ensemble{tritonConfig: t, from: map[string]string{}, of: map[string]int{}}
	for _, in := range t.c.GetInput() {
		e.from[in.GetName()] = in.GetName()
	}
	for i, s := range all {
		at := fmt.Sprintf("%s.step[%d]", path, i)
		for _, output := range slices.Sorted(maps.Keys(s.GetOutputMap())) {
			name := s.GetOutputMap()[output]
			if _, twice := e.from[name]; twice {
				t.fault(at+".output_map", "an input of the ensemble, or a tensor of another step, is called so; expected each "+
					"name once, found %q", name)
			}
			e.from[name], e.of[name] = e.name(i)+"."+output, i
		}
	}
	p := &Pipeline{Joined: true, Outputs: map[string]string{}, faults: e.place}
	for i := range all {
		e.add(p, i, nil)
	}
	for i, out := range t.c.GetOutput() {
		from, is := e.from[out.GetName()]
		if _, given := e.of[out.GetName()]; !is || !given {
			t.fault(fmt.Sprintf("output[%d].name", i), "no step gives it; expected a name in one of their output_maps, found %q",
				out.GetName())
		}
		p.Outputs[out.GetName()] = from
	}
	if len(t.c.GetOutput()) == 0 {
		t.fault(path, "the file lists no output; expected the tensors that the ensemble gives (output)")
	}
	for _, check := range []func() config.Faults{p.check, p.checkWhole} {
		if len(t.faults) == 0 {
			t.faults = p.faults(check())
		}
	}
	t.pipeline = p
}

// ensemble is an ensemble on its way into a pipeline.
type ensemble struct {
	*tritonConfig
	from  map[string]string // what tensors of the ensemble are called in the pipeline
	of    map[string]int    // the step that gives them
	order []int             // of the steps that were added
}

var noStepName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// name is that of a step: its model's, which no other step has, and no input or output begins with.
func (e *ensemble) name(i int) string {
	all := e.c.GetEnsembleScheduling().GetStep()
	plain := func(s *inference.ModelEnsembling_Step) string {
		name := noStepName.ReplaceAllString(s.GetModelName(), "_")
		return name[:min(len(name), 48)]
	}
	name := plain(all[i])
	if n := slices.IndexFunc(all, func(s *inference.ModelEnsembling_Step) bool { return plain(s) == name }); n < i {
		name = fmt.Sprintf("step%d_%s", i+1, name)
	}
	begins := func(t interface{ GetName() string }) bool { return strings.HasPrefix(t.GetName(), name) }
	if slices.ContainsFunc(e.c.GetInput(), func(in *inference.ModelInput) bool { return begins(in) }) ||
		slices.ContainsFunc(e.c.GetOutput(), func(out *inference.ModelOutput) bool { return begins(out) }) {
		name = fmt.Sprintf("step%d_%s", i+1, name)
	}
	return name
}

// add adds a step after the ones that it needs. above are the steps that wait for it.
func (e *ensemble) add(p *Pipeline, i int, above []int) {
	if slices.Contains(e.order, i) {
		return
	}
	at := fmt.Sprintf("ensemble_scheduling.step[%d]", i)
	if slices.Contains(above, i) {
		e.fault(at+".input_map", "the step needs a tensor that needs an output of the step itself; expected steps that do "+
			"not go round in circles")
		e.order = append(e.order, i)
		return
	}
	is := e.c.GetEnsembleScheduling().GetStep()[i]
	s := Step{Name: e.name(i), Model: is.GetModelName(), Version: is.GetModelVersion(), Repeat: 1}
	s.Inputs = map[string]string{}
	if s.Version == 0 {
		s.Version = newest
	}
	for _, input := range slices.Sorted(maps.Keys(is.GetInputMap())) {
		name := is.GetInputMap()[input]
		from, known := e.from[name]
		if !known {
			e.faults = append(e.faults, e.doc.Fault(at+".input_map", "no step gives it, and it is no input of the ensemble; "+
				"expected the name of such a tensor, found %q", name))
			continue
		}
		if giver, given := e.of[name]; given {
			e.add(p, giver, append(above, i))
		}
		s.Inputs[input] = from
	}
	if !slices.Contains(e.order, i) {
		e.order = append(e.order, i)
		p.Steps = append(p.Steps, s)
	}
}

// place gives faults of the pipeline their places in the file.
func (e *ensemble) place(faults config.Faults) config.Faults {
	for i, f := range faults {
		var n int
		path, rest := "ensemble_scheduling", ""
		if _, err := fmt.Sscanf(f.Key, "steps[%d]", &n); err == nil && n < len(e.order) {
			path += fmt.Sprintf(".step[%d]", e.order[n])
			_, rest, _ = strings.Cut(f.Key, "].")
		}
		switch field, _, _ := strings.Cut(rest, "."); field {
		case "model":
			path += ".model_name"
		case "version":
			path += ".model_version"
		case "inputs":
			path += ".input_map"
		}
		if n, is := e.of[strings.TrimPrefix(f.Key, "outputs.")]; is {
			path += fmt.Sprintf(".step[%d].output_map", n)
		}
		if !e.doc.Stands(path) {
			path = parentOf(path)
		}
		faults[i] = e.doc.Fault(path, "%s", f.Message)
		faults[i].Suggestion = f.Suggestion
	}
	return faults
}
