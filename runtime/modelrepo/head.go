package modelrepo

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
)

// tritonConfig is what Triton calls the settings of a model, in the place where ours are.
const tritonConfig = "config.pbtxt"

// head is the manifest as a file.
type head struct {
	path string // absolute; "" when there is none
	text []byte // nil when there is none
	err  error  // why it, or the whole directory, cannot be read
}

func (h *head) mark() string { return fmt.Sprintf("%s %x %v", h.path, sha256.Sum256(h.text), h.err) }

// readHead finds out what is in the directory, and reads the manifest.
func (s *modelScan) readHead() head {
	entries, err := readDir(s.root, s.model.Name)
	if err != nil {
		return head{err: unreadable(s.model.Dir, err)}
	}
	s.classify(entries)
	return s.readManifest()
}

// classify finds out what the names in the model directory are.
func (s *modelScan) classify(entries []string) {
	for _, entry := range entries {
		info, err := s.root.Stat(s.path(entry))
		number, isVersion := parseVersion(entry)
		switch {
		case isVersion && (err != nil || info.IsDir()):
			s.numbers = append(s.numbers, number) // an error shows again when its model file is looked for
		case entry == ManifestName:
			s.hasManifest = true
		case strings.EqualFold(entry, ManifestName), strings.EqualFold(entry, "model.yml"):
			s.misnamed = entry
		case entry == ModelFile:
			s.loose = true
		case entry == tritonConfig:
			s.note("%s is passed over, and what it sets with it: it is Triton's, and docs/MIGRATING.md tells what its settings are called in %s",
				tritonConfig, ManifestName)
		case err == nil && info.IsDir():
			s.strays = append(s.strays, entry)
			s.note("directory %q is passed over: %s", entry, versionRule)
		case isVersion:
			s.note("file %q is passed over: a version is a directory", entry)
		}
	}
	if s.loose && len(s.numbers) > 0 {
		s.note("%s is passed over: it lies outside any version directory", ModelFile)
	}
}

// readManifest reads the manifest, if there is one.
func (s *modelScan) readManifest() (h head) {
	if s.misnamed != "" {
		h.err = fmt.Errorf("%s: a manifest is called %s; rename the file", filepath.Join(s.model.Dir, s.misnamed), ManifestName)
		return h
	}
	if !s.hasManifest {
		return h
	}
	h.path = filepath.Join(s.model.Dir, ManifestName)
	if h.err = s.mustBe(h.path, regular, ManifestName); h.err != nil {
		return h
	}
	var err error
	if h.text, err = readManifest(s.root, s.path(ManifestName)); err != nil {
		h.err = unreadable(h.path, err)
	}
	return h
}
