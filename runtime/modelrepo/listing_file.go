package modelrepo

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/config/pbtxt"
	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// listedFile is the model config file from scan to scan.
type listedFile struct {
	models []listedModel // of the latest text that was complete and in order
	fault  error         // of the latest that was complete
}

// scanListed reads the models that the model config file lists. What it says counts once it has been the same for a
// while; until then, and while it is faulty, what it said before.
func (r *Repository) scanListed(s *settling) (models []Model, faults []error) {
	text, err := readListed(s, r.file)
	known := s.listed.models != nil || s.listed.fault != nil
	if s.settled(r.file, fmt.Sprintf("%x %v", sha256.Sum256(text), err)) || !known {
		s.listed.fault = err
		if err == nil {
			var now []listedModel
			if now, s.listed.fault = readModelConfig(r.file, text); s.listed.fault == nil || s.listed.models == nil {
				s.listed.models = now
			}
		}
	}
	if s.listed.fault != nil {
		faults = append(faults, s.listed.fault)
	}
	for i := range s.listed.models {
		models = append(models, r.scanOne(s, &s.listed.models[i]))
	}
	for _, m := range s.missed(r.file, models, func(string) bool { return true }) {
		if !slices.ContainsFunc(models, func(now Model) bool { return now.Name == m.Name }) {
			models = append(models, m) // until it has been gone for a while
		}
	}
	return models, faults
}

// readListed reads the file, and one byte more than is accepted.
func readListed(s *settling, file string) ([]byte, error) {
	if info, err := os.Stat(filepath.Dir(file)); err == nil {
		s.enter(filepath.Dir(file), info)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the model config file cannot be read: %w", err)
	}
	defer f.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, int64(pbtxt.MaxSize)+1))
	if err != nil {
		return nil, fmt.Errorf("the model config file cannot be read: %w", err)
	}
	return text, nil
}

// scanOne reads one of its models. Links in the directory may lead to its siblings, as in a repository.
func (r *Repository) scanOne(s *settling, l *listedModel) Model {
	dir := l.dir()
	m := Model{Name: l.c.GetName(), Dir: dir, Manifest: Defaults(), Unused: l.notes}
	if m.Err = l.faults.Err(); m.Err != nil {
		return m
	}
	root, err := rooted.Open(filepath.Dir(dir), r.stores)
	if err == nil {
		defer root.Close()
		_, err = root.Stat(filepath.Base(dir))
	}
	if err != nil {
		m.Err = config.Faults{l.doc.Fault(l.at+".base_path", "expected a directory of versions, found %v",
			unreadable(dir, err))}
		return m
	}
	if info, err := root.Stat(filepath.Base(dir)); err == nil {
		s.enter(dir, info)
	}
	return scanModel(s, root, source{owner: r.file, repository: filepath.Dir(dir), dir: filepath.Base(dir), listed: l},
		m.Name)
}
