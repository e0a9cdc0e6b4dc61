package modelrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/config"
)

// scanModel reads the directory name of root, which lies at repository.
func scanModel(root *os.Root, repository, name string) Model {
	m := Model{Name: name, Dir: filepath.Join(repository, name), Manifest: Defaults()}
	s := modelScan{root: root, repository: repository, model: &m}
	entries, err := readDir(root, name)
	if err != nil {
		m.Err = unreadable(m.Dir, err)
		return m
	}
	s.classify(entries)
	manifest, err := s.readManifest()
	if err != nil {
		m.Err = err
		return m
	}
	// Whether version directories hold a model file depends on the manifest, and what the manifest says of
	// versions on the directories. Faults of both kinds are wanted at once, hence a check within the decoding.
	var versions, selected []Version
	checkVersions := func() (faults config.Faults) {
		versions = s.findVersions()
		selected, faults = m.Manifest.Versions.apply(versions)
		return faults
	}
	if manifest == nil {
		m.Err = checkVersions().Err()
	} else {
		m.Err = config.Decode(m.ManifestPath, manifest, &m.Manifest, m.Manifest.Check, checkVersions)
	}
	// Of a model whose manifest is faulty it is not known what its version directories must hold.
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

// modelScan is the reading of one model directory.
type modelScan struct {
	root       *os.Root
	repository string
	model      *Model

	hasManifest bool
	misnamed    string   // what is probably meant as the manifest, but is not called so
	loose       bool     // a model file that lies outside any version directory
	versions    []int64  // in no particular order
	strays      []string // directories that are no version
}

// classify finds out what the names in the model directory are.
func (s *modelScan) classify(entries []string) {
	for _, entry := range entries {
		info, err := s.root.Stat(s.path(entry))
		number, isVersion := parseVersion(entry)
		switch {
		case isVersion && (err != nil || info.IsDir()):
			s.versions = append(s.versions, number) // an error shows again when its model file is looked for
		case entry == ManifestName:
			s.hasManifest = true
		case strings.EqualFold(entry, ManifestName), strings.EqualFold(entry, "model.yml"):
			s.misnamed = entry
		case entry == ModelFile:
			s.loose = true
		case err == nil && info.IsDir():
			s.strays = append(s.strays, entry)
			s.note("directory %q is passed over: %s", entry, versionRule)
		case isVersion:
			s.note("file %q is passed over: a version is a directory", entry)
		}
	}
	if s.loose && len(s.versions) > 0 {
		s.note("%s is passed over: it lies outside any version directory", ModelFile)
	}
}

func (s *modelScan) path(elements ...string) string {
	return filepath.Join(append([]string{s.model.Name}, elements...)...)
}

func (s *modelScan) note(format string, args ...any) {
	s.model.Notes = append(s.model.Notes, s.model.Dir+": "+fmt.Sprintf(format, args...))
}

// readManifest returns the manifest's text, nil when there is none.
func (s *modelScan) readManifest() ([]byte, error) {
	if s.misnamed != "" {
		return nil, fmt.Errorf("%s: a manifest is called %s; rename the file", filepath.Join(s.model.Dir, s.misnamed), ManifestName)
	}
	if !s.hasManifest {
		return nil, nil
	}
	s.model.ManifestPath = filepath.Join(s.model.Dir, ManifestName)
	if err := s.mustBe(s.model.ManifestPath, regular, ManifestName); err != nil {
		return nil, err
	}
	f, err := s.root.Open(s.path(ManifestName))
	if err != nil {
		return nil, unreadable(s.model.ManifestPath, err)
	}
	defer f.Close()
	// One byte more than is accepted, so that a longer file is refused and not cut off.
	text, err := io.ReadAll(io.LimitReader(f, int64(config.MaxSize)+1))
	if err != nil {
		return nil, unreadable(s.model.ManifestPath, err)
	}
	return text, nil
}

// findVersions returns the model's versions, ascending, having looked for each one's model file.
func (s *modelScan) findVersions() []Version {
	versions := make([]Version, len(s.versions))
	for i, number := range s.versions {
		dir := strconv.FormatInt(number, 10)
		v := Version{Number: number, Dir: filepath.Join(s.model.Dir, dir)}
		if s.model.Manifest.Synth != nil {
			v.Err = s.mustBe(v.Dir, directory, dir)
		} else {
			v.Path = filepath.Join(v.Dir, ModelFile)
			v.Err = s.mustBe(v.Path, regular, dir, ModelFile)
		}
		versions[i] = v
	}
	slices.SortFunc(versions, byNumber)
	return versions
}

// What mustBe looks for.
const (
	regular   fs.FileMode = 0
	directory             = fs.ModeDir
)

// beside tells of a model file that lies where one is missed, under another name.
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
	for _, name := range names {
		if name != ModelFile && filepath.Ext(name) == filepath.Ext(ModelFile) {
			return fmt.Sprintf(" (%q lies beside it: rename that to %s)", name, ModelFile)
		}
	}
	return ""
}

// mustBe returns nil when the elements below the model directory lead to something of the given type; a model
// file must also have content. full is its absolute path, for the message.
func (s *modelScan) mustBe(full string, want fs.FileMode, elements ...string) error {
	info, err := s.root.Stat(s.path(elements...))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist, or is a link to nothing; put it there, or remove what should hold it%s", full, s.beside(elements))
	case err != nil:
		return unreadable(full, err)
	case info.Mode().Type() != want && want == directory:
		return fmt.Errorf("%s is not a directory", full)
	case info.Mode().Type() != want:
		return fmt.Errorf("%s is not a regular file", full)
	case filepath.Base(full) == ModelFile && info.Size() == 0:
		return fmt.Errorf("%s is empty; expected an ONNX model (is it still being copied?)", full)
	}
	return nil
}

// nothingUsable says why the model has no version that could be served; nil when it has one.
func (s *modelScan) nothingUsable() error {
	m := s.model
	if len(s.versions) > 0 {
		if len(m.Versions) > 0 && !slices.ContainsFunc(m.Versions, usable) {
			newest := m.Versions[len(m.Versions)-1]
			return fmt.Errorf("%s: none of its versions (%s) can be served; the newest: %w", m.Dir, numbers(m.Versions), newest.Err)
		}
		return nil
	}
	expected := fmt.Sprintf("expected %s, where %s", filepath.Join(m.Dir, "1", ModelFile), versionRule)
	if m.Manifest.Synth != nil {
		expected = fmt.Sprintf("expected an empty directory %s, where %s", filepath.Join(m.Dir, "1"), versionRule)
	}
	_, looksLikeVersion := parseVersion(m.Name)
	switch {
	case s.loose && looksLikeVersion:
		return fmt.Errorf("%s: this is a version, not a model; name the directory above %s as the repository", m.Dir, s.repository)
	case s.loose:
		return fmt.Errorf("%s: %s lies outside any version directory; move it to %s", m.Dir, ModelFile, filepath.Join(m.Dir, "1", ModelFile))
	case len(s.strays) > 0:
		return fmt.Errorf("%s: no version directory, only %s; %s", m.Dir, list(s.strays), expected)
	}
	return fmt.Errorf("%s: no version directory; %s", m.Dir, expected)
}
