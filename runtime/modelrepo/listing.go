package modelrepo

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/catalog"
)

// Listing is the result of a scan. It is immutable.
type Listing struct {
	// Models is sorted by name; models that cannot be served are among them, with Err set.
	Models []Model
	// Faults are the errors beyond any single model, such as a repository without models.
	Faults []error
}

// Err joins every fault: of the repositories, of models and of versions, and of everything that is missing. nil:
// nothing is wrong.
func (l *Listing) Err() error {
	faults := append([]error(nil), l.Faults...)
	for _, m := range l.Models {
		faults = append(faults, m.Err, m.Missing)
		for _, v := range m.Versions {
			faults = append(faults, v.Err)
		}
	}
	return errors.Join(faults...)
}

// Model is one model directory.
type Model struct {
	Name string
	// Dir is the absolute path of the model's directory.
	Dir string
	// Manifest is the effective settings: those of the file over those of Triton's file over the defaults.
	Manifest Manifest
	// ManifestPath is the absolute path of the file, "" when the model has none.
	ManifestPath string
	// ConfigPath is the absolute path of Triton's settings, "" when the model has none.
	ConfigPath string
	// Versions ascends by number and holds every version directory, also those with Err set; it is empty when the
	// manifest is faulty, because it is not known then which files a version must hold.
	Versions []Version
	// Selected is the usable versions that the manifest's policy selects, ascending; empty when Err is set.
	Selected []Version
	// Missing are versions that the manifest names and that are not there, or cannot be served: config.Faults, nil for
	// none. The model's other versions are not harmed. Nil when Err is set.
	Missing error
	// Notes lists things that were passed over and are probably a mistake, such as a directory that is no version.
	Notes []string
	// Unused has a sentence for each field of config.pbtxt, or of a model config file, that has no effect here or another.
	Unused []string
	// Err is why nothing of the model can be served: config.Faults in the manifest, or a sentence with the path and the
	// expected content.
	Err error
	// Elsewhere: other replicas serve the model, see Divide. It has neither versions nor an error then.
	Elsewhere *catalog.ElsewhereError
}

// Settings returns the settings that a version of the model is served by: those of the model or, of a pipeline, with
// what is kept for its steps.
func (m *Model) Settings(v *Version) *Manifest {
	if v.Pipeline != nil && v.Pipeline.own != nil {
		return v.Pipeline.own
	}
	return &m.Manifest
}

// Version is one version directory of a model.
type Version struct {
	Model  string
	Number int64
	// Dir is the absolute path of the version's directory; files that the model refers to lie next to it.
	Dir string
	// Path is the absolute path of model.onnx, or of the file that says what a pipeline is; "" for a synthetic model.
	Path string
	// Pipeline: the version is made of others, which it says. Its Fingerprint covers theirs.
	Pipeline *Pipeline
	// Fingerprint changes when a file of the version does: one is added, removed, replaced or written to. It says
	// nothing of the content of the files, and is to be compared with those of the same Dir only. Dot files do not
	// count. "": the version is held back, see [ErrCopying].
	Fingerprint string
	// Held says that the files have changed since, and the version is shown as it was until they are complete.
	Held bool
	// Err is why this version cannot be served, such as a model file that is missing. The model's other versions
	// are not harmed: a version that is still being copied does not take its elders down.
	Err error
}

// Repository returns the absolute path of the directory of the repository that the version lies in.
func (v Version) Repository() string { return filepath.Dir(filepath.Dir(v.Dir)) }

// Steps returns what a pipeline is made of; none: it is none. Of an output that has several names it tells the first.
func (v Version) Steps() (all []catalog.Step) {
	if v.Pipeline == nil {
		return nil
	}
	called, used := map[string]string{}, slices.Collect(maps.Values(v.Pipeline.Outputs))
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(v.Pipeline.Outputs))) {
		called[v.Pipeline.Outputs[name]] = name
	}
	for _, s := range v.Pipeline.Steps {
		if used = slices.AppendSeq(used, maps.Values(s.Inputs)); s.When != nil {
			used = append(used, s.When.Output)
		}
	}
	for _, s := range v.Pipeline.Steps {
		step := catalog.Step{
			Name: s.Name, Model: s.Model, Version: s.Version, Repeat: s.Repeat, When: s.When.String(),
			Separate: v.Pipeline.Staged(),
		}
		for _, input := range slices.Sorted(maps.Keys(s.Inputs)) {
			from := s.Inputs[input]
			step.Inputs = append(step.Inputs, catalog.StepTensor{Name: input, Called: cmp.Or(called[from], from)})
		}
		for _, from := range slices.Compact(slices.Sorted(slices.Values(used))) {
			if of, output, is := v.Pipeline.StepOf(from); is && of == s.Name {
				step.Outputs = append(step.Outputs, catalog.StepTensor{Name: output, Called: cmp.Or(called[from], from)})
			}
		}
		all = append(all, step)
	}
	return all
}

// String is such as "see.score is above 0.5".
func (w *When) String() string {
	if w == nil {
		return ""
	}
	var bounds []string
	if w.Above != "" {
		bounds = append(bounds, "above "+string(w.Above))
	}
	if w.Below != "" {
		bounds = append(bounds, "below "+string(w.Below))
	}
	return w.Output + " is " + strings.Join(bounds, " and ")
}

// sameListing reports whether nothing differs that anybody could act on or read.
func sameListing(a, b *Listing) bool {
	return slices.EqualFunc(a.Faults, b.Faults, sameError) && slices.EqualFunc(a.Models, b.Models, sameModel)
}

func sameModel(a, b Model) bool {
	return a.Name == b.Name && a.Dir == b.Dir && a.ManifestPath == b.ManifestPath && a.ConfigPath == b.ConfigPath &&
		sameError(a.Err, b.Err) && sameError(a.Missing, b.Missing) && a.Elsewhere.Same(b.Elsewhere) &&
		slices.EqualFunc(a.Versions, b.Versions, sameVersion) &&
		slices.EqualFunc(a.Selected, b.Selected, sameVersion) &&
		slices.Equal(a.Notes, b.Notes) && slices.Equal(a.Unused, b.Unused) && reflect.DeepEqual(a.Manifest, b.Manifest)
}

func sameVersion(a, b Version) bool {
	aErr, bErr := a.Err, b.Err
	a.Err, b.Err = nil, nil
	a.Held, b.Held = false, false // the change is news once it is complete
	a.Pipeline, b.Pipeline = nil, nil
	return a == b && sameError(aErr, bErr)
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}
