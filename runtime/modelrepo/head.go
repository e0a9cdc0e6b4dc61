package modelrepo

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/config"
)

// tritonConfig is the name of Triton's settings of a model, in the place where ours are.
const tritonConfig = "config.pbtxt"

// head is the manifest as a file.
type head struct {
	path string // absolute; "" when there is none
	text []byte // nil when there is none
	err  error  // why it, or the whole directory, cannot be read
}

func (h *head) mark() string { return fmt.Sprintf("%s %x %v", h.path, sha256.Sum256(h.text), h.err) }

// readHead lists the directory, and reads the manifest.
func (s *modelScan) readHead() head {
	entries, err := readDir(s.root, s.model.Name, func(fs.DirEntry) bool { return true })
	if err != nil {
		return head{err: unreadable(s.model.Dir, err)}
	}
	s.classify(entries)
	return s.readManifest()
}

// classify sorts the names in the model directory by their kind.
func (s *modelScan) classify(entries []fs.DirEntry) {
	odd := 0
	for _, e := range entries {
		entry := e.Name()
		isDir, err := s.isDir(e)
		number, isVersion := parseVersion(entry)
		switch {
		case isVersion && (err != nil || isDir):
			s.numbers = append(s.numbers, number) // an error shows again when its model file is looked for
		case entry == ManifestName:
			s.hasManifest = true
		case strings.EqualFold(entry, ManifestName), strings.EqualFold(entry, "model.yml"):
			s.misnamed = entry
		case entry == ModelFile:
			s.loose = true
		case entry == tritonConfig:
			s.note("%s is passed over, and what it sets with it: it is Triton's, and docs/MIGRATING.md tells what its "+
				"settings are called in %s",
				tritonConfig, ManifestName)
		case err == nil && isDir:
			s.strays = append(s.strays, entry)
			if odd++; odd <= maxOdd {
				s.note("directory %q is passed over: %s", entry, versionRule)
			}
		case isVersion:
			if odd++; odd <= maxOdd {
				s.note("file %q is passed over: a version is a directory", entry)
			}
		}
	}
	if odd > maxOdd {
		s.note("%d more directories and files are passed over that are no versions", odd-maxOdd)
	}
	if s.loose && len(s.numbers) > 0 {
		s.note("%s is passed over: it lies outside any version directory", ModelFile)
	}
}

// isDir reports whether an entry of the model directory is a directory, or leads to one. Only links need a further
// look.
func (s *modelScan) isDir(e fs.DirEntry) (bool, error) {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir(), nil
	}
	info, err := s.root.Stat(s.path(e.Name()))
	return err == nil && info.IsDir(), err
}

// readManifest reads the manifest, if there is one.
func (s *modelScan) readManifest() (h head) {
	if s.misnamed != "" {
		h.err = fmt.Errorf("%s: a manifest is called %s; rename the file", filepath.Join(s.model.Dir, s.misnamed),
			ManifestName)
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

// readManifest reads a manifest, and one byte more than is accepted, so that a longer file is refused and not cut off.
func readManifest(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(config.MaxSize)+1))
}
