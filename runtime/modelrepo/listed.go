package modelrepo

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/config/pbtxt"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
)

// listedModel is a model of TensorFlow Serving's model config file: a name, a directory of versions wherever it lies,
// and what the file says of them.
type listedModel struct {
	doc    *pbtxt.Document
	at     string // the path of its entry in the file
	c      *serving.ModelConfig
	notes  []string
	faults config.Faults
}

// platforms are what the file may call the platform of a model: files for SavedModels say tensorflow.
var platforms = map[string]bool{
	"": true, "tensorflow": true, "onnx": true, "onnxruntime": true, "onnxruntime_onnx": true,
}

// readModelConfig reads the file. The error is config.Faults of the file as a whole; those of a model that has a name
// are with the model.
func readModelConfig(file string, text []byte) ([]listedModel, error) {
	var c serving.ModelServerConfig
	doc, err := pbtxt.Read(file, text, &c)
	if err != nil {
		return nil, err
	}
	var faults config.Faults
	if c.GetCustomModelConfig() != nil {
		faults = append(faults, doc.Fault("custom_model_config", "it is of other servers; expected model_config_list"))
	} else if len(c.GetModelConfigList().GetConfig()) == 0 {
		faults = append(faults, doc.Fault("model_config_list", "it lists no model; expected at least one, such as "+
			"model_config_list { config { name: \"a\" base_path: \"/models/a\" } }"))
	}
	var models []listedModel
	names, paths := map[string]bool{}, map[string]string{}
	for i, m := range c.GetModelConfigList().GetConfig() {
		l := listedModel{doc: doc, at: fmt.Sprintf("model_config_list.config[%d]", i), c: m}
		if name := m.GetName(); !ValidName(name) || names[name] {
			if names[name] {
				l.fault("name", "there is a model of that name already; expected each name once, found %q", name)
			} else {
				l.fault("name", "a model %s, found %q", nameRule, name)
			}
			faults = append(faults, l.faults...)
			continue
		}
		names[m.GetName()] = true
		l.judge()
		if other, taken := paths[l.dir()]; taken && len(l.faults) == 0 {
			l.fault("base_path", "it is that of model %s already; expected a directory of its own", other)
		}
		paths[l.dir()] = m.GetName()
		models = append(models, l)
	}
	return models, faults.Err()
}

func (l *listedModel) fault(field, format string, args ...any) {
	l.faults = append(l.faults, l.doc.Fault(l.at+"."+field, format, args...))
}

func (l *listedModel) note(field, sentence string) {
	path := l.at + "." + field
	l.notes = append(l.notes, fmt.Sprintf("%s:%d: %s: %s", l.doc.File(), l.doc.Line(path), path, sentence))
}

// judge finds what the entry itself has wrong.
func (l *listedModel) judge() {
	switch path := l.c.GetBasePath(); {
	case path == "":
		l.fault("base_path", "it is missing; expected the directory of the model's version directories")
	case strings.Contains(path, "://"):
		l.fault("base_path", "a list names local directories only; mount the storage, or give weft serve its URL "+
			"(docs/how-to/remote-repositories.md), found %q", path)
	case !filepath.IsAbs(path) || filepath.Clean(path) == "/":
		l.fault("base_path", "expected the absolute path of a directory of versions, found %q", path)
	}
	if p := l.c.GetModelPlatform(); !platforms[p] {
		l.fault("model_platform", "Weft serves models of ONNX only; export the model to ONNX, and remove the field, found %q",
			p)
	}
	if l.c.GetModelType() != serving.ModelType_MODEL_TYPE_UNSPECIFIED { //nolint:staticcheck // old files have it
		l.note("model_type", "it says nothing that matters here: remove it")
	}
	if l.c.GetLoggingConfig() != nil {
		l.note("logging_config", "requests are recorded for all models or none: set --record and --record-sample")
	}
}

// dir is the model's directory.
func (l *listedModel) dir() string { return filepath.Clean(l.c.GetBasePath()) }

// over sets what the entry says of versions, and returns the fields by the keys of the manifest that they set.
func (l *listedModel) over(m *Manifest) map[string]string {
	set := map[string]string{}
	p := l.c.GetModelVersionPolicy()
	switch {
	case p.GetLatest() != nil:
		m.Versions.Policy = Policy{Latest: max(1, int(p.GetLatest().GetNumVersions()))}
	case p.GetAll() != nil:
		m.Versions.Policy = Policy{All: true}
	case p.GetSpecific() != nil:
		m.Versions.Policy = Policy{Specific: append([]int64{}, p.GetSpecific().GetVersions()...)}
	}
	if p.GetPolicyChoice() != nil {
		set["versions.policy"] = l.at + ".model_version_policy"
	}
	if labels := l.c.GetVersionLabels(); len(labels) > 0 {
		m.Versions.Labels = maps.Clone(labels)
		set["versions.labels"] = l.at + ".version_labels"
	}
	return set
}

// place gives faults of what the entry sets its place.
func (l *listedModel) place(faults config.Faults, set map[string]string) {
	for i, f := range faults {
		for key, path := range set {
			if rest, ok := strings.CutPrefix(f.Key, key); ok && (rest == "" || strings.ContainsRune(".[", rune(rest[0]))) {
				if label, ok := strings.CutPrefix(rest, "."); ok && key == "versions.labels" {
					path += "[" + label + "]"
				}
				faults[i] = l.doc.Fault(path, "%s", f.Message)
				faults[i].Key, faults[i].Suggestion, faults[i].Open = f.Key, f.Suggestion, f.Open
			}
		}
	}
}
