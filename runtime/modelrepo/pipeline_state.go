package modelrepo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/config"
)

// keep has the server keep what the settings of the steps' models say (state), where the file does not say what such an
// input gets: it is an input of the pipeline then, called by the step, a dot and its name, and what it is next is such
// an output. So are both for clients that take and bring checkpoints.
func (p *Pipeline) keep() (faults config.Faults) {
	conditional := p.Conditional()
	p.Outputs, p.Defaults, p.kept = maps.Clone(p.Outputs), maps.Clone(p.Defaults), nil
	for i := range p.Steps {
		s := &p.Steps[i]
		k := keeper{
			Pipeline: p, step: s, key: fmt.Sprintf("steps[%d].", i), conditional: conditional[s.Name], given: s.Inputs,
			faults: &faults,
		}
		k.checkInputs(p.Steps[:i])
		if s.State == nil {
			continue
		}
		s.Inputs, s.Kept = map[string]string{}, map[string]string{}
		maps.Copy(s.Inputs, k.given)
		for _, pair := range s.State.Pairs {
			k.pair(pair)
		}
		for _, w := range s.State.Windows {
			k.window(w)
		}
		k.start()
	}
	return faults
}

// keeper finds what the server keeps for a step.
type keeper struct {
	*Pipeline
	step        *Step
	key         string // in pipeline.yaml
	conditional bool
	given       map[string]string // the inputs of the file
	faults      *config.Faults
}

// checkInputs finds inputs of earlier steps in the place of outputs.
func (k *keeper) checkInputs(earlier []Step) {
	for _, in := range sortedKeys(k.given) {
		name, own, _ := strings.Cut(k.given[in], ".")
		for _, s := range earlier {
			if next, kept := s.Kept[own]; kept && s.Name == name {
				k.faults.Addf(k.key+"inputs."+in, "that is an input of the step, which the server keeps; expected one of its "+
					"outputs, such as %s.%s, found %q", name, next, k.given[in])
			}
		}
	}
}

// take makes an input of the step one of the pipeline, which the server fills. The bounds are those of the step that is
// the strictest.
func (k *keeper) take(input, output string) string {
	s, name := k.step, k.step.Name+"."+input
	s.Inputs[input], s.Kept[input] = name, output
	own := s.State
	if k.kept == nil {
		k.kept = &State{
			MaxEpisodes: own.MaxEpisodes, Idle: own.Idle, OnVersionChange: own.OnVersionChange, Bind: own.Bind,
			Initial: map[string]config.Scalar{}, Dirs: map[string]string{},
		}
	}
	kept := k.kept
	kept.MaxEpisodes, kept.Idle = min(kept.MaxEpisodes, own.MaxEpisodes), min(kept.Idle, own.Idle)
	if kept.OnVersionChange != own.OnVersionChange {
		kept.OnVersionChange = RefuseOnChange
	}
	if own.Bind != "" {
		kept.Bind = own.Bind
	}
	if initial, has := own.Initial[input]; has {
		kept.Initial[name], kept.Dirs[name] = initial, s.Of.Dir
	}
	return name
}

// refuse says why the server cannot keep an input.
func (k *keeper) refuse(input, setting, why string) {
	k.faults.Addf(k.key+"inputs", "%q is missing, and the server cannot keep it as %s of model %s says: %s; expected "+
		"what it gets, such as an input of the pipeline that state in the pipeline's own %s names", input, setting,
		k.step.Model, why, ManifestName)
}

func (k *keeper) pair(pair StatePair) {
	s := k.step
	if _, given := k.given[pair.Input]; given {
		return
	}
	if _, carried := s.Carry[pair.Input]; s.Repeat > 1 && !carried {
		k.faults.Addf(k.key+"carry", "the step is repeated, and its state %s stays as it was each time; expected it "+
			"here, too ({%s: %s}), or among the inputs what it gets", pair.Input, pair.Input, pair.Output)
	}
	in, out := k.take(pair.Input, pair.Output), s.Name+"."+pair.Output
	k.kept.Pairs = append(k.kept.Pairs, StatePair{in, out})
	if k.Outputs[out] = out; k.conditional {
		k.Defaults[out] = Scalar(in) // there is one already, of the output that needs the step
	}
}

func (k *keeper) window(w StateWindow) {
	s := k.step
	if _, given := k.given[w.Input]; given {
		return
	}
	of, isInput := k.given[w.Of]
	if _, _, isOutput := k.StepOf(of); isOutput {
		of = ""
	}
	for _, name := range sortedKeys(k.Outputs) {
		if !isInput && k.Outputs[name] == s.Name+"."+w.Of {
			of = name
		}
	}
	const setting = "state.windows"
	switch {
	case k.conditional:
		k.refuse(w.Input, setting, "the step leaves rows out (when)")
	case s.Repeat > 1:
		k.refuse(w.Input, setting, "the step is repeated")
	case w.Of == "":
		k.refuse(w.Input, setting, "requests bring the latest value")
	case of == "":
		k.refuse(w.Input, setting, w.Of+" is neither an input nor an output of the pipeline")
	default:
		in := k.take(w.Input, "")
		k.kept.Windows = append(k.kept.Windows, StateWindow{in, of, w.Steps})
	}
}

// start has all steps that are told of a beginning get the same input.
func (k *keeper) start() {
	s, name := k.step, k.step.State.Start
	if _, given := k.given[name]; given || name == "" || len(s.Kept) == 0 {
		return
	}
	switch {
	case k.conditional:
		k.refuse(name, "state.start", "the step leaves rows out (when), also of the first request")
	case s.Repeat > 1:
		k.refuse(name, "state.start", "the step is repeated, and each time would be a beginning")
	case k.kept.Start != "":
		s.Inputs[name], s.Kept[name] = k.kept.Start, ""
	default:
		k.kept.Start = k.take(name, "")
	}
}

// StateKey returns what an input that is kept is called in faults: the state of a step, or else by its key.
func (v Version) StateKey(input, key string) string {
	if v.Pipeline == nil {
		return key
	}
	name, own, _ := strings.Cut(input, ".")
	for _, s := range v.Pipeline.Steps {
		if _, is := s.Kept[own]; is && s.Name == name {
			return fmt.Sprintf("state of model %s, step %s, input %s", s.Model, name, own)
		}
	}
	return key
}

// checkRows demands that the settings say along which dimensions states have rows where those of the steps' models do.
func (p *Pipeline) checkRows(faults *config.Faults, b *Batching) {
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, in := range sortedKeys(s.Kept) {
			demand := func(key, own string, dims, has map[string]int) {
				name := s.Name + "." + own
				dim, says := dims[own]
				if _, also := has[name]; says && !also {
					faults.Addf("batching.batch_dim."+key+"."+name, "expected %d in the pipeline's own %s, as model %s has it for %s",
						dim, ManifestName, s.Model, own)
				}
			}
			demand("inputs", in, s.rows.BatchDim.Inputs, b.BatchDim.Inputs)
			demand("outputs", s.Kept[in], s.rows.BatchDim.Outputs, b.BatchDim.Outputs)
			if name := s.Name + "." + in; slices.Contains(s.rows.Unbatched, in) && !slices.Contains(b.Unbatched, name) {
				faults.Addf("batching.unbatched", "expected %s in the pipeline's own %s, as model %s has it for %s", name,
					ManifestName, s.Model, in)
			}
		}
	}
}

// settings returns the settings that a version of the pipeline is served by: its model's, and what is kept for the
// steps. What the model's own state says counts more.
func (p *Pipeline) settings(m *Manifest) (*Manifest, error) {
	own, state := m.State, p.kept
	var faults config.Faults
	switch {
	case own == nil && state == nil:
		return m, nil
	case state == nil || own != nil && own.keepsNone():
		state = own
	case own != nil:
		both := *own
		both.Pairs, both.Windows = slices.Concat(own.Pairs, state.Pairs), slices.Concat(own.Windows, state.Windows)
		both.Initial, both.Dirs = maps.Clone(state.Initial), maps.Clone(state.Dirs)
		for name, initial := range own.Initial {
			both.Initial[name] = initial
			delete(both.Dirs, name)
		}
		if both.Start == "" {
			both.Start = state.Start
		} else if state.Start != "" {
			faults.Addf("state.start", "the pipeline has an input for that already, %s, as state.start of a step's model says; "+
				"expected that step to get this one (inputs in %s)", state.Start, PipelineFile)
		}
		state = &both
	}
	next := *m
	next.State = state
	state.check(&faults, false)
	p.checkRows(&faults, &m.Batching)
	return &next, state.At(faults)
}
