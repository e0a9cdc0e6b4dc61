package modelrepo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// source is where a model comes from.
type source struct {
	owner      string       // what has it: a repository, or a model config file
	repository string       // the directory that the root leads to
	dir        string       // the model's directory in it
	listed     *listedModel // nil: its directory is all that there is
	renamed    bool         // see Rename
}

// scanModel reads the model called name from a directory of root.
func scanModel(settling *settling, root *rooted.Root, from source, name string) (m Model) {
	m = Model{Name: name, Dir: filepath.Join(from.repository, from.dir), Manifest: Defaults()}
	s := modelScan{
		root: root, from: from, model: &m, settling: settling,
		before: settling.model(from.owner, m.Dir),
	}
	defer func() { s.before.listed = m }()
	h := s.readHead()
	s.look()
	switch {
	case settling.settled(m.Dir, h.mark()):
		s.before.head, s.before.headKnown = h, true
	case s.before.headKnown:
		h = s.before.head
	default:
		h.err = settling.copying(m.Dir)
	}
	m.ManifestPath, m.ConfigPath = h.manifest.path, h.triton.path
	if m.Err = h.err; m.Err != nil {
		return m
	}
	var set map[string]string // by the entry of a model config file
	listed := func() config.Faults { return nil }
	if l := from.listed; l != nil {
		m.Unused = append(m.Unused, l.notes...)
		listed = func() config.Faults {
			set = l.over(&m.Manifest)
			return nil
		}
	}
	var t *tritonConfig
	yield := func() config.Faults { return nil }
	if m.ConfigPath != "" {
		names := []string{m.Name, from.dir}
		if from.renamed {
			names = nil
		}
		t = readTriton(m.ConfigPath, h.triton.text, names, &m.Manifest)
		yield, s.ensemble = t.yield, t.pipeline
		if m.Err = t.faults.Err(); m.Err != nil {
			m.Unused = append(m.Unused, t.sentences()...)
			return m
		}
	}
	// Whether version directories must hold a model file depends on the manifest, and whether the manifest's versions
	// exist depends on the directories. Faults of both kinds are wanted at once, hence a check within the decoding.
	var versions, selected []Version
	var missing config.Faults
	checkVersions := func() (faults config.Faults) {
		versions = s.findVersions()
		selected, missing, faults = m.Manifest.choose(versions)
		return append(faults, missing...)
	}
	if m.ManifestPath == "" && t == nil && from.listed == nil {
		m.Err = checkVersions().Err()
	} else {
		m.Err = config.Decode(cmp.Or(m.ManifestPath, m.ConfigPath), h.manifest.text, &m.Manifest, listed, yield,
			func() config.Faults { return m.Manifest.check(s.ofSteps()) }, checkVersions)
		found, _ := errors.AsType[config.Faults](m.Err)
		if within(found, missing) {
			m.Missing, m.Err = m.Err, nil
		}
		if from.listed != nil {
			from.listed.place(found, set)
		}
		if t != nil {
			t.place(found)
			m.Unused = append(m.Unused, t.sentences()...)
		}
	}
	if state := m.Manifest.State; state != nil {
		state.File, state.Text = m.ManifestPath, h.manifest.text
	}
	// If a model's manifest is faulty, it is not known which files its version directories must hold.
	if m.Err == nil {
		m.Versions = versions
	}
	if err := s.nothingUsable(); err != nil {
		m.Err = errors.Join(m.Err, err)
	}
	if m.Err == nil {
		m.Selected = selected
	}
	return m
}

// within reports whether all faults, which know their places by now, are among others.
func within(faults, others config.Faults) bool {
	for _, f := range faults {
		if !slices.ContainsFunc(others, func(o config.Fault) bool { return o.Key == f.Key && o.Message == f.Message }) {
			return false
		}
	}
	return true
}

// modelScan is the reading of one model directory.
type modelScan struct {
	root     *rooted.Root
	from     source
	model    *Model
	settling *settling
	before   *settledModel

	hasManifest bool
	hasTriton   bool
	misnamed    string // a file that is probably meant as the manifest, but is not called so
	ensemble    *Pipeline
	loose       string   // a file of a version that lies outside any version directory
	numbers     []int64  // of the version directories, in no particular order
	strays      []string // directories that are no version
	versions    []looked // in no particular order
}

// looked holds the known facts about a version before the manifest is read.
type looked struct {
	number      int64
	fingerprint string
	settled     bool
	copying     error // why it is not settled
	// Why it cannot be an ONNX model, or a synthetic one; found before the prints were taken, so that a file which goes
	// or comes in between shows in the prints.
	asONNX, asSynth error
	pipeline        *Pipeline // nil: there is no pipeline.yaml
}

// look takes the prints of the versions that are here, or were.
func (s *modelScan) look() {
	known := s.before.versions
	for _, number := range s.numbers {
		dir := strconv.FormatInt(number, 10)
		l := looked{
			number:  number,
			asONNX:  s.mustBe(filepath.Join(s.model.Dir, dir, ModelFile), regular, dir, ModelFile),
			asSynth: s.mustBe(filepath.Join(s.model.Dir, dir), directory, dir),
		}
		prints := takePrints(s.root, s.path(dir), func(name string, info fs.FileInfo) {
			s.settling.enter(filepath.Join(s.from.repository, name), info)
		})
		switch before := known[number]; {
		case !prints.pipeline:
		case before.Fingerprint == prints.files && before.Err == nil && filepath.Base(before.Path) == PipelineFile:
			l.pipeline, l.asONNX = before.Pipeline, nil // it is read once
		default:
			l.pipeline, l.asONNX = s.pipeline(dir, l.asONNX == nil)
		}
		l.fingerprint, l.settled = prints.files, s.settling.filled(filepath.Join(s.model.Dir, dir), prints.all)
		l.copying = s.settling.copying(filepath.Join(s.model.Dir, dir))
		if before, taken := known[number]; l.settled && (!taken || before.Fingerprint != l.fingerprint) {
			s.checkWritten(&l, dir)
		}
		s.versions = append(s.versions, l)
	}
	for number, before := range known {
		if slices.Contains(s.numbers, number) {
			continue
		}
		if s.settling.settled(filepath.Join(s.model.Dir, strconv.FormatInt(number, 10)), absent) {
			delete(known, number)
			continue
		}
		// It is known as long as its absence is not settled.
		s.versions = append(s.versions, looked{number: number, pipeline: before.Pipeline})
	}
}

// checkWritten finds a version unsettled if a program has a file of it open for writing. It is looked at again soon.
func (s *modelScan) checkWritten(l *looked, dir string) {
	if s.settling.quiet == 0 {
		return
	}
	if file := openForWriting(s.root, s.path(dir)); file != "" {
		l.settled, l.copying = false, fmt.Errorf("%s is %w: a program has it open for writing, and it is looked at again "+
			"when that is over", filepath.Join(s.from.repository, file), ErrCopying)
		s.settling.lookAt(s.settling.now.Add(s.settling.quiet))
	}
}

func (s *modelScan) path(elements ...string) string {
	return filepath.Join(append([]string{s.from.dir}, elements...)...)
}

func (s *modelScan) note(format string, args ...any) {
	s.model.Notes = append(s.model.Notes, s.model.Dir+": "+fmt.Sprintf(format, args...))
}

// findVersions returns the model's versions, ascending, now that the manifest says which files they must hold.
func (s *modelScan) findVersions() []Version {
	versions := make([]Version, len(s.versions))
	for i, l := range s.versions {
		v := Version{
			Model: s.model.Name, Number: l.number, Dir: filepath.Join(s.model.Dir, strconv.FormatInt(l.number, 10)),
			Fingerprint: l.fingerprint, Err: l.asSynth,
		}
		if s.model.Manifest.Synth == nil {
			v.Path, v.Err = filepath.Join(v.Dir, ModelFile), l.asONNX
			if v.Pipeline = l.pipeline; v.Pipeline != nil {
				v.Path = filepath.Join(v.Dir, PipelineFile)
			}
			if s.ensemble != nil {
				v.Path, v.Pipeline, v.Err = s.model.ConfigPath, s.ensemble, l.asSynth
			}
		}
		switch before, known := s.before.versions[l.number]; {
		case l.settled:
			s.before.versions[l.number] = v
		case known && before.Path == v.Path:
			v, v.Held = before, l.fingerprint != before.Fingerprint
		default:
			v.Fingerprint, v.Err = "", l.copying
		}
		versions[i] = v
	}
	slices.SortFunc(versions, byNumber)
	return versions
}

// The kinds that mustBe looks for.
const (
	regular   fs.FileMode = 0
	directory             = fs.ModeDir
)

// savedModel is the file that TensorFlow Serving has in the place of ours.
const savedModel = "saved_model.pb"

// beside mentions a model file that lies where one is missed, under another name.
func (s *modelScan) beside(elements []string) string {
	if elements[len(elements)-1] != ModelFile {
		return ""
	}
	folder, err := s.root.Open(s.path(elements[:len(elements)-1]...))
	if err != nil {
		return ""
	}
	defer folder.Close()
	names, err := folder.Readdirnames(100)
	if err != nil {
		return ""
	}
	if slices.Contains(names, savedModel) {
		return fmt.Sprintf(" (%s lies beside it, a model of TensorFlow: export that to ONNX, as with tf2onnx, to %s)",
			savedModel, ModelFile)
	}
	slices.Sort(names)
	for _, name := range names {
		if name != ModelFile && filepath.Ext(name) == filepath.Ext(ModelFile) {
			return fmt.Sprintf(" (%q lies beside it: rename that to %s)", name, ModelFile)
		}
	}
	for _, name := range names {
		if strings.EqualFold(strings.TrimSuffix(name, filepath.Ext(name)), "pipeline") {
			return fmt.Sprintf(" (%q lies beside it: rename that to %s)", name, PipelineFile)
		}
		if slices.Contains(otherFormats, filepath.Ext(name)) {
			return fmt.Sprintf(" (%q lies beside it, a model of another format: export that to ONNX, to %s)", name, ModelFile)
		}
		below := append(slices.Clone(elements[:len(elements)-1]), name, ModelFile)
		if info, err := s.root.Stat(s.path(below...)); err == nil && info.Mode().IsRegular() {
			return fmt.Sprintf(" (it lies in %q there: move it up)", name)
		}
	}
	return ""
}

// otherFormats are the extensions of models that people put in the place of ONNX models.
var otherFormats = []string{
	".pt", ".pth", ".safetensors", ".pkl", ".joblib", ".h5", ".keras", ".tflite", ".gguf", ".plan", ".engine",
}

// mustBe returns nil when the elements below the model directory lead to something of the given type; a model
// file must also have content. full is its absolute path, for the message.
func (s *modelScan) mustBe(full string, want fs.FileMode, elements ...string) error {
	info, err := s.root.Stat(s.path(elements...))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist, or is a link to nothing; put it there, or remove what should hold it%s",
			full, s.beside(elements))
	case err != nil:
		return unreadable(full, err)
	case info.Mode().Type() != want && want == directory:
		return fmt.Errorf("%s is not a directory; put one in its place", full)
	case info.Mode().Type() != want:
		return fmt.Errorf("%s is not a regular file; put one in its place", full)
	case filepath.Base(full) == ModelFile && info.Size() == 0:
		return fmt.Errorf("%s is empty; expected an ONNX model (is it still being copied?)", full)
	}
	return nil
}

// ofSteps reports whether there are pipelines among the versions.
func (s *modelScan) ofSteps() bool {
	return s.ensemble != nil || slices.ContainsFunc(s.versions, func(l looked) bool { return l.pipeline != nil })
}

// nothingUsable says why the model has no version that could be served; nil when it has one.
func (s *modelScan) nothingUsable() error {
	m := s.model
	if len(s.versions) > 0 {
		if len(m.Versions) > 0 && !slices.ContainsFunc(m.Versions, usable) {
			newest := m.Versions[len(m.Versions)-1]
			return fmt.Errorf("%s: none of its versions (%s) can be served; the newest: %w", m.Dir, numbers(m.Versions),
				newest.Err)
		}
		return nil
	}
	expected := fmt.Sprintf("expected %s, where %s", filepath.Join(m.Dir, "1", ModelFile), versionRule)
	switch {
	case s.ensemble != nil:
		expected = fmt.Sprintf("an ensemble needs one, as in Triton: make the empty directory %s (git keeps no empty "+
			"directories: put a file .gitkeep into it)", filepath.Join(m.Dir, "1"))
	case m.Manifest.Synth != nil:
		expected = fmt.Sprintf("expected an empty directory %s, where %s", filepath.Join(m.Dir, "1"), versionRule)
	}
	_, looksLikeVersion := parseVersion(s.from.dir)
	switch {
	case s.loose != "" && looksLikeVersion:
		return fmt.Errorf("%s: this is a version, not a model; name the directory above %s as the repository", m.Dir,
			s.from.repository)
	case s.loose != "":
		return fmt.Errorf("%s: %s lies outside any version directory; move it to %s", m.Dir, s.loose,
			filepath.Join(m.Dir, "1", s.loose))
	case len(s.strays) > 0:
		return fmt.Errorf("%s: no version directory, only %s; %s", m.Dir, list(s.strays), expected)
	}
	return fmt.Errorf("%s: no version directory; %s", m.Dir, expected)
}
