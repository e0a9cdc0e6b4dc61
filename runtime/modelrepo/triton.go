package modelrepo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/config/pbtxt"
	"github.com/weftserve/weft/proto/gen/inference"
)

// TritonConfigName is the file next to a model's version directories that holds Triton's settings; it is optional.
const TritonConfigName = "config.pbtxt"

// tritonConfig is a config.pbtxt on its way into a manifest. Each field that is set in it is told of: it sets
// something, or is a fault, or becomes a note.
type tritonConfig struct {
	doc    *pbtxt.Document
	c      *inference.ModelConfig
	m      *Manifest
	leaves []string          // the paths of what is set in it
	told   map[string]bool   // paths of fields; a path stands for what is below it
	set    map[string]string // keys of the manifest that it sets, and by which field
	notes  []tritonNote
	faults config.Faults
	onCPU  bool // by its instance groups

	pipeline *Pipeline // an ensemble, as one; nil: it is none
	own      Manifest  // as the file alone sets it
}

// tritonNote is a sentence on a field, and its line.
type tritonNote struct {
	path string
	line int
	text string
}

// readTriton reads a config.pbtxt of a model that may have any of the names, or any at all where there are none, over a
// manifest. file names it in faults.
func readTriton(file string, data []byte, names []string, m *Manifest) *tritonConfig {
	t := &tritonConfig{c: &inference.ModelConfig{}, m: m, told: map[string]bool{}, set: map[string]string{}}
	var err error
	if t.doc, err = pbtxt.Read(file, data, t.c); err != nil {
		t.faults, _ = err.(config.Faults) //nolint:errorlint // nothing else comes from there
		return t
	}
	t.leaves = pbtxt.Leaves(t.c)
	t.identity(names)
	t.rows()
	t.tensors()
	t.scheduling()
	t.instances()
	t.optimization()
	t.parameters()
	t.versions()
	t.warmups()
	t.rest()
	t.faults.Sort()
	t.own = *m
	return t
}

// sets notes that a field sets a key of the manifest.
func (t *tritonConfig) sets(key, path string) {
	t.told[path] = true
	t.set[key] = path
}

func (t *tritonConfig) note(path, format string, args ...any) {
	t.told[path] = true
	line := t.doc.Line(path)
	t.notes = append(t.notes, tritonNote{
		path, line, fmt.Sprintf("%s:%d: %s: %s", t.doc.File(), line, path, fmt.Sprintf(format, args...)),
	})
}

func (t *tritonConfig) fault(path, format string, args ...any) {
	t.told[path] = true
	t.faults = append(t.faults, t.doc.Fault(path, format, args...))
}

// has reports whether the file sets a field, also to what it is without the file.
func (t *tritonConfig) has(path string) bool { return t.doc.Stands(path) }

// place gives faults of the manifest whose keys were set here, and not in model.yaml too, the place of the field.
func (t *tritonConfig) place(faults config.Faults) {
	for i, f := range faults {
		if !f.Absent {
			continue
		}
		for key := f.Key; key != ""; key = key[:max(strings.LastIndexAny(key, ".["), 0)] {
			if path, ok := t.set[key]; ok {
				faults[i] = t.doc.Fault(path, "%s (%s sets it)", f.Message, path)
				faults[i].Key, faults[i].Suggestion, faults[i].Open = f.Key, f.Suggestion, f.Open
				break
			}
		}
	}
}

// sentences returns the notes, in the order of their lines.
func (t *tritonConfig) sentences() (all []string) {
	slices.SortStableFunc(t.notes, func(a, b tritonNote) int { return cmp.Compare(a.line, b.line) })
	for _, note := range t.notes {
		all = append(all, note.text)
	}
	return all
}

// yield gives up what the file sets and model.yaml, which was read over it, leaves no meaning. It returns no faults, so
// that it can come before the checks of the manifest.
func (t *tritonConfig) yield() config.Faults {
	m, own, usual := t.m, &t.own, Defaults()
	if !t.onCUDA() {
		d := usual.ONNX
		let(&m.ONNX.Device, own.ONNX.Device, d.Device)
		let(&m.ONNX.DeviceMemoryLimit, own.ONNX.DeviceMemoryLimit, d.DeviceMemoryLimit)
		let(&m.ONNX.ArenaExtendStrategy, own.ONNX.ArenaExtendStrategy, d.ArenaExtendStrategy)
		let(&m.ONNX.ConvAlgoSearch, own.ONNX.ConvAlgoSearch, d.ConvAlgoSearch)
		let(&m.ONNX.TF32, own.ONNX.TF32, d.TF32)
		let(&m.ONNX.PinBuffers, own.ONNX.PinBuffers, d.PinBuffers)
		let(&m.ONNX.CUDAGraphs, own.ONNX.CUDAGraphs, d.CUDAGraphs)
	}
	if sizes := &m.Batching.AllowedBatchSizes; len(*sizes) > 0 && slices.Equal(*sizes, own.Batching.AllowedBatchSizes) {
		if *sizes = nil; m.ONNX.CUDAGraphs {
			*sizes = t.graphSizes()
		}
	}
	t.hold()
	if m.MaxLatency > 0 {
		let(&m.TargetLatency, own.TargetLatency, min(own.TargetLatency, m.MaxLatency))
	}
	return nil
}

// let sets what is as the file has it.
func let[T comparable](to *T, own, value T) {
	if *to == own {
		*to = value
	}
}

// identity judges which model the file is of, and what runs it.
func (t *tritonConfig) identity(names []string) {
	t.told["name"] = true
	if name := t.c.GetName(); name != "" && len(names) > 0 && !slices.Contains(names, name) {
		t.fault("name", "the model is called %s by its directory; expected that name, or none, found %q", names[0], name)
	}
	t.told["platform"], t.told["backend"] = true, true
	if t.c.GetEnsembleScheduling() != nil { // that says what it is
		return
	}
	const served = "expected %s, or none: Weft serves models of ONNX only; export the model to ONNX, found %q"
	if p := t.c.GetPlatform(); p == "ensemble" {
		t.fault("platform", "the file has no ensemble_scheduling; expected it, with a step for each model of the ensemble")
	} else if p != "" && p != "onnxruntime_onnx" {
		t.fault("platform", served, "onnxruntime_onnx", p)
	}
	if b := t.c.GetBackend(); b != "" && b != "onnxruntime" {
		t.fault("backend", served, "onnxruntime", b)
	}
	t.told["default_model_filename"] = true
	if f := t.c.GetDefaultModelFilename(); f != "" && f != ModelFile {
		t.fault("default_model_filename", "expected %s; rename the file in each version directory, or put a link of "+
			"that name beside it (ln -s), and remove the field, found %q", ModelFile, f)
	}
}

// rows maps the size of batches. 0 is Triton's word for a model without batching.
func (t *tritonConfig) rows() {
	const path = "max_batch_size"
	switch n := t.c.GetMaxBatchSize(); {
	case n < 0:
		t.fault(path, "%d rows; expected 0 (no batching) or more", n)
	case n > 0:
		t.m.Batching.MaxBatchSize = int(t.most(path, uint64(n), maxBatch))
		t.sets("batching.max_batch_size", path)
		if t.c.GetSchedulingChoice() == nil {
			t.note(path, "without dynamic_batching Triton joins no requests; Weft does where that is proven harmless: set "+
				"batching.mode: \"off\" in %s if it should not", ManifestName)
		}
	case t.has(path):
		t.m.Batching.Mode = BatchOff
		t.sets("batching.mode", path)
	}
}

// most returns a number, or the most that Weft has instead, with a note.
func (t *tritonConfig) most(path string, n, most uint64) uint64 {
	if n > most {
		t.note(path, "%d is more than Weft has: it is %d", n, most)
		return most
	}
	return n
}

// versions maps which versions are served.
func (t *tritonConfig) versions() {
	p := t.c.GetVersionPolicy()
	const path, key = "version_policy", "versions.policy"
	switch {
	case p.GetLatest() != nil:
		t.m.Versions.Policy = Policy{Latest: max(1, int(p.GetLatest().GetNumVersions()))}
		t.sets(key, path)
	case p.GetAll() != nil:
		t.m.Versions.Policy = Policy{All: true}
		t.sets(key, path)
	case p.GetSpecific() != nil:
		t.m.Versions.Policy = Policy{Specific: p.GetSpecific().GetVersions()}
		if t.m.Versions.Policy.Specific == nil {
			t.m.Versions.Policy.Specific = []int64{} // which is a fault, and not the default
		}
		t.sets(key, path)
	default:
		t.told[path] = true // {}
	}
}

// rest makes a note of each field that nothing was told about.
func (t *tritonConfig) rest() {
	noted := map[string]bool{}
	for _, leaf := range t.leaves {
		if t.isTold(leaf) {
			continue
		}
		path, why := meaningless(leaf)
		if !noted[path] {
			noted[path] = true
			t.note(path, "%s", why)
		}
	}
}

func (t *tritonConfig) isTold(path string) bool {
	for path != "" {
		if t.told[path] {
			return true
		}
		path = parentOf(path)
	}
	return false
}

// parentOf cuts the last step off a path: a field, an index, or a key, in which anything may stand.
func parentOf(path string) string {
	last := byte('.')
	if strings.HasSuffix(path, "]") {
		last = '['
	}
	return path[:max(strings.LastIndexByte(path, last), 0)]
}
