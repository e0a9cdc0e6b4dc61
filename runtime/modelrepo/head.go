package modelrepo

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/config/pbtxt"
)

// warmupDir is the directory next to a model's version directories that holds inputs for warm-up.
const warmupDir = "warmup"

// head is the settings of a model as files.
type head struct {
	manifest, triton settingsFile
	err              error // why one of them, or the whole directory, cannot be read
}

// settingsFile is one of them; the zero value: there is none.
type settingsFile struct {
	path string // absolute
	text []byte
}

func (h *head) mark() string {
	return fmt.Sprintf("%s %x %s %x %v", h.manifest.path, sha256.Sum256(h.manifest.text), h.triton.path,
		sha256.Sum256(h.triton.text), h.err)
}

// readHead lists the directory, and reads the settings.
func (s *modelScan) readHead() head {
	entries, err := readDir(s.root, s.from.dir, func(fs.DirEntry) bool { return true })
	if err != nil {
		return head{err: unreadable(s.model.Dir, err)}
	}
	s.classify(entries)
	return s.readSettings()
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
		case entry == ModelFile, entry == PipelineFile:
			s.loose = entry
		case entry == TritonConfigName:
			s.hasTriton = true
		case entry == warmupDir && isDir:
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
	if s.loose != "" && len(s.numbers) > 0 {
		s.note("%s is passed over: it lies outside any version directory", s.loose)
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

// readSettings reads the files of settings that there are.
func (s *modelScan) readSettings() (h head) {
	if s.misnamed != "" {
		h.err = fmt.Errorf("%s: a manifest is called %s; rename the file", filepath.Join(s.model.Dir, s.misnamed),
			ManifestName)
		return h
	}
	if s.hasManifest {
		h.manifest, h.err = s.readFile(ManifestName)
	}
	if s.hasTriton && h.err == nil {
		h.triton, h.err = s.readFile(TritonConfigName)
	}
	return h
}

// readFile reads one of them, and one byte more than is accepted, so that a longer file is refused and not cut off.
func (s *modelScan) readFile(name string) (f settingsFile, err error) {
	f.path = filepath.Join(s.model.Dir, name)
	if err := s.mustBe(f.path, regular, name); err != nil {
		return f, err
	}
	opened, err := s.root.Open(s.path(name))
	if err == nil {
		defer opened.Close() // it was only read
		f.text, err = io.ReadAll(io.LimitReader(opened, int64(pbtxt.MaxSize)+1))
	}
	if err != nil {
		return f, unreadable(f.path, err)
	}
	return f, nil
}
