// Package fetch puts the pinned ONNX Runtime library into its place, for `weft setup` and `make setup`.
package fetch

import (
	"context"
	_ "embed" // the licence
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/weftserve/weft/internal/ortlib"
)

// Source returns the content of the npm package, a gzipped tar; one that has a method Size() int64 knows how many bytes
// that has. It may write files into dir, which is deleted later.
type Source func(ctx context.Context, dir string) (io.ReadCloser, error)

// Named says which library WEFT_ONNXRUNTIME_LIB names, so that none needs to be fetched; "" if it is not set.
func Named() (string, error) {
	named := os.Getenv(ortlib.EnvVar)
	if named == "" {
		return "", nil
	}
	path, err := ortlib.Named(named)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ONNX Runtime: %s (named by %s)", path, ortlib.EnvVar), nil
}

// Place is where the pinned library of this platform belongs. Fetch and Take are not for concurrent use; Read is.
type Place struct {
	path          string
	lib           library
	tarballSHA512 string // hex

	// Another goroutine shows the progress.
	read, of atomic.Int64 // bytes of the package
}

// NewPlace returns the place of the library at path. The error says that no library is pinned for this platform.
func NewPlace(path string) (*Place, error) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	lib, ok := pinned[platform]
	if !ok {
		return nil, fmt.Errorf("%w: no pinned library for %s; name one of version %s or newer with %s",
			ortlib.ErrMissing, platform, ortlib.Version, ortlib.EnvVar)
	}
	path, err := filepath.Abs(path)
	return &Place{path: path, lib: lib, tarballSHA512: tarballSHA512}, err
}

// String says which library is in the place.
func (p *Place) String() string {
	return fmt.Sprintf("ONNX Runtime: %s (version %s)", p.path, ortlib.Version)
}

// Read returns how many bytes of the package were read, and how many it has; 0: that is not known. Safe for concurrent
// use.
func (p *Place) Read() (done, of int64) { return p.read.Load(), p.of.Load() }

// Fetch leaves the pinned library in its place. It keeps a file with the right digest, and replaces another by what the
// source has. A file that cannot be read is an error: it may be somebody's.
func (p *Place) Fetch(ctx context.Context, source Source) error {
	sum, err := fileSHA256(p.path)
	switch {
	// An earlier release may have put the library there without its licence.
	case err == nil && sum == p.lib.sha256:
		return p.addLicence()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("check the library in place: %w", err)
	}
	return p.install(func(dir string) (io.ReadCloser, error) {
		content, err := source(ctx, dir)
		if err != nil {
			err = fmt.Errorf("%w: %s is not there and could not be fetched (%w); "+
				"mend that and run this again, or run `npm pack %s` on a machine that has npm and give the file with "+
				"`weft setup --from FILE`, or name a library with %s", ortlib.ErrMissing, p.path, err, Package, ortlib.EnvVar)
		}
		return content, err
	})
}

// Take puts the library of a file into its place: of the npm package, or the library itself.
func (p *Place) Take(file string) error {
	return p.install(func(string) (io.ReadCloser, error) { return os.Open(file) })
}

// install puts the library of a package, or a library itself, into its place. The file appears there by a rename, after
// its digests were checked: no program can load a half-written or a wrong one.
func (p *Place) install(open func(dir string) (io.ReadCloser, error)) error {
	dir := filepath.Dir(p.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Below the target, so that the last step is a rename on one file system.
	work, err := os.MkdirTemp(dir, ".fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	content, err := open(work)
	if err != nil {
		return err
	}
	defer content.Close()
	// A size that is not known comes as -1.
	p.of.Store(max(0, sizeOf(content)))
	unpacked := filepath.Join(work, "library")
	if err := p.unpack(&counted{content, &p.read}, unpacked); err != nil {
		return err
	}
	if err := p.addLicence(); err != nil {
		return err
	}
	return os.Rename(unpacked, p.path)
}

// sizeOf returns how many bytes a package has, or 0 or less if that is not known.
func sizeOf(content io.Reader) int64 {
	switch c := content.(type) {
	case *os.File:
		if info, err := c.Stat(); err == nil {
			return info.Size()
		}
	case interface{ Size() int64 }:
		return c.Size()
	}
	return 0
}

// counted counts the bytes that are read.
type counted struct {
	from io.Reader
	n    *atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// Licence is ONNX Runtime's, which the npm package has no file of.
//
//go:embed onnxruntime-LICENSE.txt
var Licence []byte

const licenceName = "onnxruntime-LICENSE.txt"

// addLicence writes the licence beside the library, unless it is there. The licence demands to go along with each copy.
func (p *Place) addLicence() error {
	path := filepath.Join(filepath.Dir(p.path), licenceName)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, Licence, 0o644)
}
