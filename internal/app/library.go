package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
)

// library is the ONNX Runtime library. It is looked for when the first model needs it: synthetic models do not.
type library struct {
	named     string   // by the user; "" where it is to be found
	operators []string // absolute paths of libraries of custom operators

	// A library that was loaded stays, and loading that failed is not tried again.
	once sync.Once
	err  error
}

// find returns the path of the library, which may be loaded in this process or in a worker. The error is one sentence
// that includes the remedy.
func (l *library) find() (string, error) {
	if l.named != "" {
		return ortlib.Named(l.named)
	}
	return ortlib.Find()
}

// load loads the library into this process, once.
func (l *library) load() error {
	l.once.Do(func() {
		var path string
		if path, l.err = l.find(); l.err == nil {
			l.err = ort.Init(path)
		}
	})
	return l.err
}

// check returns an error if a model of the listing runs on the library and it cannot be found. It does not load it.
func (l *library) check(listing modelrepo.Listing) error {
	for _, m := range listing.Models {
		if m.Manifest.Synth == nil && len(m.Selected) > 0 {
			_, err := l.find()
			return err
		}
	}
	return nil
}

// absolute returns the paths of --ort-ops from the root: the loader would look for a name without a folder among the
// system's libraries.
func absolute(paths []string) (all []string, err error) {
	for _, path := range paths {
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("--ort-ops: %w", err)
		}
		all = append(all, path)
	}
	return all, nil
}

// checkOperators reports operator libraries that are no files. What is in them shows when a model is loaded: to load
// one is to run it.
func checkOperators(paths []string, faults *config.Faults) {
	for i, path := range paths {
		key, wanted := fmt.Sprintf("ort-ops[%d]", i), "expected the file of a shared library"
		if info, err := os.Stat(path); err != nil {
			faults.Addf(key, "%v; %s", err, wanted)
		} else if !info.Mode().IsRegular() {
			faults.Addf(key, "%s is no file; %s", path, wanted)
		}
	}
}

// tellOperators logs which operator libraries models may use, and what is in their files now.
func (s *assembly) tellOperators(context.Context) error {
	for _, path := range s.ORTOps {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("cannot read the operator library of --ort-ops: %w", err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if _ = file.Close(); err != nil {
			return fmt.Errorf("cannot read the operator library of --ort-ops: %w", err)
		}
		s.log.Info("models may use the operators of a library", "event", "operator_library_named", "path", path,
			"sha256", hex.EncodeToString(sum.Sum(nil)))
	}
	return nil
}
