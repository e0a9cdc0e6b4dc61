package modelrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
)

// PipelineFile is the file in a version's directory that makes it a pipeline, in the place of model.onnx.
const PipelineFile = "pipeline.yaml"

// Pipeline is a version that is made of versions of other models, which are joined when it is loaded.
type Pipeline struct {
	// Steps (1 to 64; required) are the models in the order in which they run. A step may use outputs of earlier steps.
	Steps []Step `yaml:"steps"`
	// Outputs (required) maps each output of the pipeline to an output of a step: {action: act.action}. A step that no
	// output needs is an error.
	Outputs map[string]string `yaml:"outputs,flow"`
	// Joined (default true) merges the steps into one model. With false, or if a step has a condition, each step is a
	// request to the version that the repository serves, and shares batches with other requests to it. That suits steps
	// on different devices, or steps with very different batch sizes.
	Joined bool `yaml:"joined"`
	// Defaults are the values of outputs for rows that a conditional step leaves out: a number, true, false or a text,
	// {action: 0}; or the rows of an input of the same type and shape, {hn: h}. Each such output needs one.
	Defaults map[string]Scalar `yaml:"defaults,flow,omitempty"`

	// Text is the file; that of an ensemble is written when its versions are known.
	Text []byte `yaml:"-"`
	// faults gives faults their places in Triton's file; nil: it is none.
	faults func(config.Faults) config.Faults

	// Once the repository was read: what is kept for the steps, nil: nothing; and by what a version is served.
	kept *State
	own  *Manifest
}

// Step is one model of a pipeline.
type Step struct {
	// Name (required) is the step's name in this file: letters, digits, "_" and "-".
	Name string `yaml:"name"`
	// Model and Version choose the version that runs. The version is required, because one version of a pipeline consists
	// of one version of each of its models.
	Model   string `yaml:"model"`
	Version int64  `yaml:"version"`
	// Inputs maps each input of the model to an input of the pipeline, or to an output of an earlier step,
	// "step.output". It may leave out inputs that have a default, or that the model's state keeps.
	Inputs map[string]string `yaml:"inputs,flow,omitempty"`
	// Repeat (1 to 10,000; default 1) is how many times the step runs. Each run receives outputs of the previous run as
	// Carry says.
	Repeat int `yaml:"repeat,omitempty"`
	// Carry names the output that an input receives from the second run on: {x: x_next}. A repeated step needs it.
	Carry map[string]string `yaml:"carry,flow,omitempty"`
	// When leaves rows out of this step and of all steps that need it. By default all rows run.
	When *When `yaml:"when,omitempty"`

	// Once the repository was read: the version, what its model's settings keep, nil: nothing; and which inputs the
	// server keeps for the step, with the output that each is in the next request, or "".
	Of    Version           `yaml:"-"`
	State *State            `yaml:"-"`
	Kept  map[string]string `yaml:"-"`
	rows  *Batching         // of its model's settings
}

// When is the condition of a step: rows pass for which a value is above one bound and below the other.
type When struct {
	// Output (required) is one of an earlier step, "step.output": one number for each row, or true (1) or false (0).
	Output string `yaml:"output"`
	// Above and Below are bounds; a row runs if its value is above one and below the other. One of them may be left out.
	Above Bound `yaml:"above,omitempty"`
	Below Bound `yaml:"below,omitempty"`
}

// Passes reports whether a row with this value passes.
func (w *When) Passes(value float64) bool {
	return (w.Above == "" || value > w.Above.value()) && (w.Below == "" || value < w.Below.value())
}

// Bound is a number; "": there is none.
type Bound string

func (b Bound) value() float64 {
	v, _ := strconv.ParseFloat(string(b), 64) // it was read by UnmarshalText
	return v
}

// UnmarshalText reads a number.
func (b *Bound) UnmarshalText(text []byte) error {
	if v, err := strconv.ParseFloat(string(text), 64); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("expected a number, found %q", text)
	}
	*b = Bound(text)
	return nil
}

// Scalar is one element of a tensor, as text.
type Scalar string

// UnmarshalText takes any text.
func (s *Scalar) UnmarshalText(text []byte) error {
	*s = Scalar(text)
	return nil
}

// SetDefaults implements config.Defaulter.
func (s *Step) SetDefaults() { s.Repeat = 1 }

const (
	maxSteps  = 64
	maxRepeat = 10_000
)

var stepName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ReadPipeline reads a pipeline.yaml, which file names in faults. The error is config.Faults with everything that is
// wrong in it by itself.
func ReadPipeline(file string, text []byte) (*Pipeline, error) {
	p := &Pipeline{Text: text, Joined: true}
	err := p.Decode(file)
	if err == nil {
		err = p.Decode(file, p.checkWhole)
	}
	return p, err
}

// Decode reads Text once more, so that what further checks find gets its places in the file.
func (p *Pipeline) Decode(file string, checks ...func() config.Faults) error {
	if p.faults != nil {
		var all config.Faults
		for _, check := range checks {
			all = append(all, check()...)
		}
		return open(p.faults(all)).Err()
	}
	before := p.Steps
	*p = Pipeline{Text: p.Text, Joined: true} // others may read the maps
	known := func() config.Faults {
		for i := range min(len(before), len(p.Steps)) {
			p.Steps[i].Of, p.Steps[i].State, p.Steps[i].rows = before[i].Of, before[i].State, before[i].rows
		}
		return nil
	}
	keep := func() config.Faults {
		_ = p.keep() // what is wrong with that was found when the repository was read
		return nil
	}
	err := config.Decode(file, p.Text, p, append([]func() config.Faults{known, p.check, keep}, checks...)...)
	faults, _ := errors.AsType[config.Faults](err)
	for i, f := range faults {
		if strings.Contains(f.Key, ".inputs.") && strings.HasPrefix(f.Message, "expected text") {
			_, found, _ := strings.Cut(f.Message, ", found ")
			faults[i].Message = constant + ", found " + found
		}
	}
	return open(faults).Err()
}

// At returns faults by keys of the pipeline with their places in the file; nil: there are none.
func (p *Pipeline) At(file string, faults config.Faults) error {
	again := *p
	return again.Decode(file, func() config.Faults { return faults })
}

// print returns the pipeline as pipeline.yaml.
func (p *Pipeline) print() string {
	text, _ := config.Print(p) // it has the types that settings have
	return text
}

// open has callers read what is wrong with a pipeline: GetModel tells them what its file has.
func open(faults config.Faults) config.Faults {
	for i := range faults {
		faults[i].Open = true
	}
	return faults
}

// constant says what becomes of a number in the place of an input's name.
const constant = "an input gets no constant; expected an output of an earlier step, or the name of an input of the " +
	"pipeline: put the constant into the model"

// StepOf splits "step.output"; false: it is an input of the pipeline.
func (p *Pipeline) StepOf(from string) (step, output string, is bool) {
	step, output, dotted := strings.Cut(from, ".")
	return step, output, dotted && slices.ContainsFunc(p.Steps, func(s Step) bool {
		_, input := s.Kept[output]
		return s.Name == step && !input
	})
}

// Staged reports whether each step is a request by itself.
func (p *Pipeline) Staged() bool {
	return !p.Joined || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.When != nil })
}

// Conditional reports for each step whether rows may be left out of it: by its own condition, or by that of a step that
// it needs.
func (p *Pipeline) Conditional() map[string]bool {
	all := map[string]bool{}
	for _, s := range p.Steps {
		all[s.Name] = s.When != nil
		for _, from := range s.Inputs {
			step, _, _ := p.StepOf(from)
			all[s.Name] = all[s.Name] || all[step]
		}
	}
	return all
}

// checkConditions judges the conditions of steps, and what there is instead.
func (p *Pipeline) checkConditions(faults *config.Faults) {
	for i, s := range p.Steps {
		if s.When == nil {
			continue
		}
		key := fmt.Sprintf("steps[%d].when", i)
		if *s.When == (When{}) {
			faults.Addf(key, "no output and no bound; expected such as {output: see.trigger, above: 0.5}")
			continue
		}
		if _, _, is := p.StepOf(s.When.Output); !is {
			faults.Addf(key+".output", "expected %s, found %q", p.outputs(i), s.When.Output)
		} else {
			p.checkSource(faults, key+".output", s.When.Output, i)
		}
		switch above, below := s.When.Above, s.When.Below; {
		case above == "" && below == "":
			faults.Addf(key, "no bound; expected above or below, such as {output: see.trigger, above: 0.5}")
		case above != "" && below != "" && above.value() >= below.value():
			faults.Addf(key, "no row passes; expected above to be less than below, found above %s, below %s",
				above, below)
		}
	}
	conditional := p.Conditional()
	for name, from := range p.Outputs {
		step, _, _ := p.StepOf(from)
		if _, has := p.Defaults[name]; !has && conditional[step] {
			faults.Addf("outputs."+name, "step %q leaves rows out; expected what this output is for them, as in "+
				"defaults: {%s: 0}", step, name)
		}
	}
	for name := range p.Defaults {
		step, _, _ := p.StepOf(p.Outputs[name])
		if !conditional[step] {
			faults.Addf("defaults."+name, "no rows are left out of it; expected an output that needs a step with a condition")
		}
	}
}

func (p *Pipeline) check() (faults config.Faults) {
	if len(p.Steps) == 0 {
		return nil // checkWhole says it, unless another fault explains it
	}
	p.checkConditions(&faults)
	for name, from := range p.Outputs {
		key := "outputs." + name
		p.checkName(&faults, key, name)
		if _, _, is := p.StepOf(from); !is {
			faults.Addf(key, "expected %s, found %q", p.outputs(len(p.Steps)), from)
		}
	}
	for i, s := range p.Steps {
		key := fmt.Sprintf("steps[%d]", i)
		p.checkStep(&faults, key, i)
		for in, from := range s.Inputs {
			p.checkSource(&faults, key+".inputs."+in, from, i)
		}
	}
	return faults
}

// checkWhole finds what is missing from a pipeline that has no other fault, which would often be the cause.
func (p *Pipeline) checkWhole() (faults config.Faults) {
	if len(p.Steps) == 0 || len(p.Steps) > maxSteps {
		faults.Addf("steps", "%d steps; expected 1 to %d", len(p.Steps), maxSteps)
	}
	if len(p.Outputs) == 0 {
		faults.Addf("outputs", "none; expected at least one, such as {action: act.action}")
	}
	used := map[string]bool{}
	use := func(from string) {
		step, _, _ := p.StepOf(from)
		used[step] = true
	}
	for _, from := range p.Outputs {
		use(from)
	}
	for i, s := range slices.Backward(p.Steps) {
		if !used[s.Name] && len(p.Outputs) > 0 {
			faults.Addf(fmt.Sprintf("steps[%d]", i), "nothing uses an output of step %q; expected one among the outputs, or as "+
				"the input of a later step", s.Name)
		}
		for _, from := range s.Inputs {
			use(from)
		}
		if s.When != nil {
			use(s.When.Output)
		}
	}
	return faults
}

func (p *Pipeline) checkStep(faults *config.Faults, key string, i int) {
	s := &p.Steps[i]
	if !stepName.MatchString(s.Name) {
		faults.Addf(key+".name", "expected letters, digits, \"_\" and \"-\", found %q", s.Name)
	}
	if at := slices.IndexFunc(p.Steps, func(o Step) bool { return o.Name == s.Name }); at < i {
		faults.Addf(key+".name", "steps[%d] is called so; expected each name once, found %q", at, s.Name)
	}
	if !ValidName(s.Model) {
		faults.Addf(key+".model", "a model %s, found %q", nameRule, s.Model)
	}
	if s.Version == 0 {
		faults.Addf(key+".version", "the step names no version; expected its number, such as version: 1")
	} else if s.Version < 1 && (p.faults == nil || s.Version != newest) {
		faults.Addf(key+".version", "expected the number of a version, such as 1, found %d", s.Version)
	}
	config.Between(faults, key+".repeat", s.Repeat, 1, maxRepeat)
	if s.Repeat > 1 && len(s.Carry) == 0 {
		faults.Addf(key+".carry", "a repeated step carries nothing, so that each time is the same; expected what each time "+
			"gets from the time before, such as {x: x_next}")
	}
	if s.Repeat == 1 && len(s.Carry) > 0 {
		faults.Addf(key+".carry", "the step runs once; expected repeat, too")
	}
}

// checkSource judges what an input of a step gets.
func (p *Pipeline) checkSource(faults *config.Faults, key, from string, i int) {
	name, _, dotted := strings.Cut(from, ".")
	at := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Name == name })
	near := ""
	if at < 0 && dotted {
		near = config.Nearest(name, p.names(i))
	}
	switch {
	case near != "":
		*faults = append(*faults, config.Fault{
			Key: key, Suggestion: near,
			Message: fmt.Sprintf("no step is called so; expected %s, or an input of the pipeline, found %q", p.outputs(i), name),
		})
	case at < 0 || !dotted:
		if _, err := strconv.ParseFloat(from, 64); err == nil && p.faults == nil {
			faults.Addf(key, "%s, found %q", constant, from)
		} else {
			p.checkName(faults, key, from)
		}
	case at == i:
		faults.Addf(key, "an output of the step itself, which it gets by carry only; expected %s", p.outputs(i))
	case at > i:
		faults.Addf(key, "step %q comes later; expected %s", name, p.outputs(i))
	}
}

// checkName judges the name of an input or output of the pipeline.
func (p *Pipeline) checkName(faults *config.Faults, key, name string) {
	first := strings.IndexAny(name, ".:/")
	if name == "" || first >= 0 && slices.Contains(p.names(len(p.Steps)), name[:first]) {
		faults.Addf(key, "expected a name that does not begin with that of a step and \".\", \":\" or \"/\", found %q", name)
	}
}

// names are those of the first n steps.
func (p *Pipeline) names(n int) (all []string) {
	for _, s := range p.Steps[:n] {
		all = append(all, s.Name)
	}
	return all
}

// outputs says what the outputs of the first n steps are called.
func (p *Pipeline) outputs(n int) string {
	if n == 0 {
		return "an input of the pipeline, since there is no earlier step"
	}
	return "an output of one of the steps " + list(p.names(n)) + ", as " + p.names(n)[0] + ".OUTPUT"
}

// resolve finds the versions that the steps of pipelines name.
func (l *Listing) resolve(s *settling) {
	for i := range l.Models {
		m := &l.Models[i]
		found := false
		for j := range m.Versions {
			if v := &m.Versions[j]; v.Pipeline != nil && v.Err == nil {
				l.resolveVersion(s, m, v)
				found = true
			}
		}
		if !found || m.Err != nil {
			continue
		}
		// Which versions can be served shows only now.
		var missing config.Faults
		m.Selected, missing, _ = m.Manifest.choose(m.Versions)
		if m.Missing == nil {
			m.Missing = missing.Err()
		}
	}
}

// find returns the place of a model.
func (l *Listing) find(model string) (at int, is bool) {
	return slices.BinarySearchFunc(l.Models, model, func(m Model, name string) int {
		return strings.Compare(m.Name, name)
	})
}

// resolved is a pipeline whose steps were there, and its own fingerprint.
type resolved struct {
	own     string
	version Version
}

// resolveVersion finds the versions of one pipeline's steps. One that was complete stays as it was while a step's files
// are not there: the joined model is a copy, and goes on without them.
func (l *Listing) resolveVersion(s *settling, m *Model, v *Version) {
	own := v.Fingerprint
	p := *v.Pipeline
	if p.faults != nil { // the file of an ensemble is no file of its versions, and has settings, too
		own += p.print()
	}
	prints := fmt.Appendln(nil, own)
	p.Steps = slices.Clone(p.Steps)
	var faults config.Faults
	var copying error
	for i := range p.Steps {
		of := &p.Steps[i].Of
		key := fmt.Sprintf("steps[%d]", i)
		*of = l.step(&faults, key, &p.Steps[i])
		if specific := l.specific(of.Model); p.Staged() && specific != nil && !slices.Contains(specific, of.Number) {
			faults.Addf(key+".version", "versions.policy of model %s does not select it, and the step is a request to that "+
				"version; expected one of %s, found %d", of.Model, listNumbers(specific), of.Number)
		}
		prints = fmt.Appendln(prints, of.Dir, of.Fingerprint)
		if errors.Is(of.Err, ErrCopying) {
			copying = of.Err
		}
	}
	if len(faults) == 0 && copying == nil {
		if p.faults != nil {
			p.Text = []byte(p.print())
		}
		faults = p.keep()
	}
	before, known := s.pipelines[v.Dir]
	switch goesOn := known && before.own == own; {
	case len(faults) == 0 && copying == nil:
		sum := sha256.Sum256(prints)
		v.Pipeline, v.Fingerprint = &p, hex.EncodeToString(sum[:16])
		s.pipelines[v.Dir] = resolved{own, *v}
	case goesOn && copying == nil:
		*v = before.version
		m.Notes = append(m.Notes, fmt.Sprintf("version %d goes on as it was joined, and cannot be loaded again: %v", v.Number,
			p.Decode(v.Path, func() config.Faults { return faults })))
	case goesOn:
		*v = before.version
	case copying != nil:
		v.Fingerprint, v.Err = "", copying
	default:
		v.Err = p.Decode(v.Path, func() config.Faults { return faults })
	}
	if v.Err == nil {
		p = *v.Pipeline
		p.own, v.Err = p.settings(&m.Manifest)
		v.Pipeline = &p
	}
}

// step finds the version that a step names.
func (l *Listing) step(faults *config.Faults, key string, step *Step) Version {
	at, is := l.find(step.Model)
	if !is {
		*faults = append(*faults, config.Fault{
			Key: key + ".model", Message: fmt.Sprintf("the repository has no such model; expected the name of one, found %q",
				step.Model), Suggestion: config.Nearest(step.Model, l.names()),
		})
		return Version{}
	}
	m := &l.Models[at]
	if errors.Is(m.Err, ErrCopying) {
		return Version{Err: m.Err}
	}
	if step.Version == newest {
		if n := len(m.Selected); n > 0 {
			step.Version = m.Selected[n-1].Number
		}
	}
	step.State, step.rows = m.Manifest.State, &m.Manifest.Batching
	v, is := find(m.Versions, step.Version)
	switch {
	case m.Err != nil:
		faults.Addf(key+".model", "nothing of model %s can be served; expected one that can: %s", step.Model,
			catalog.Public(m.Err))
	case !is:
		faults.Addf(key+".version", "model %s has no such version; expected one of %s, found %d", step.Model,
			numbers(m.Versions), step.Version)
	case v.Pipeline != nil:
		faults.Addf(key+".model", "model %s is a pipeline; name its steps here instead", step.Model)
	case v.Path == "":
		faults.Addf(key+".model", "model %s is synthetic; expected one that has %s", step.Model, ModelFile)
	case v.Err != nil && !errors.Is(v.Err, ErrCopying):
		faults.Addf(key+".version", "version %d of model %s cannot be loaded; expected one that can: %s", v.Number,
			step.Model, catalog.Public(v.Err))
	}
	return v
}

// specific returns the versions that a model's policy lists; nil: it lists none.
func (l *Listing) specific(model string) []int64 {
	if at, is := l.find(model); is {
		return l.Models[at].Manifest.Versions.Policy.Specific
	}
	return nil
}

func (l *Listing) names() (all []string) {
	for _, m := range l.Models {
		all = append(all, m.Name)
	}
	return all
}

// pipeline reads the pipeline.yaml of a version.
func (s *modelScan) pipeline(dir string, hasModel bool) (*Pipeline, error) {
	file, err := s.readFile(filepath.Join(dir, PipelineFile))
	switch {
	case err != nil:
		return &Pipeline{}, err
	case hasModel:
		return &Pipeline{}, fmt.Errorf("%s lies beside %s; remove one of them: a version is a model or a pipeline", file.path,
			ModelFile)
	}
	return ReadPipeline(file.path, file.text)
}
