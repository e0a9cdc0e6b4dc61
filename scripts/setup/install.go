package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weftserve/weft/internal/ortlib"
)

// installer puts one library in place.
type installer struct {
	lib           library
	tarballSHA512 string // hex
	path          string // where the library belongs
	// fetch downloads the package into dir and returns the tarball's path.
	fetch func(ctx context.Context, dir string) (string, error)
}

// install leaves the pinned library at in.path. A file that is there with the right digest is kept;
// a wrong one is replaced. Nothing appears at in.path before both digests have been checked.
func (in installer) install(ctx context.Context) error {
	sum, err := fileSHA256(in.path)
	switch {
	case err == nil && sum == in.lib.sha256:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("check the library in place: %w", err)
	}
	dir := filepath.Dir(in.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Below the target, so that the last step is a rename on one file system.
	work, err := os.MkdirTemp(dir, ".fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tarball, err := in.fetch(ctx, work)
	if err != nil {
		return fmt.Errorf("%w: %s is not there and could not be fetched (%w); "+
			"run `make setup` again with the npm registry reachable, or name a library with %s",
			ortlib.ErrMissing, in.path, err, ortlib.EnvVar)
	}
	unpacked := filepath.Join(work, "library")
	if err := in.unpack(tarball, unpacked); err != nil {
		return err
	}
	return os.Rename(unpacked, in.path)
}

// unpack writes the library's member of the tarball to path and checks both digests.
func (in installer) unpack(tarball, path string) error {
	file, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer file.Close()
	whole := sha512.New()
	read := io.TeeReader(file, whole)
	if err := extract(read, in.lib.member, path); err != nil {
		return fmt.Errorf("unpack %s: %w", npmPackage, err)
	}
	// The archive reader stops at the last member; the digest is of the whole file.
	if _, err := io.Copy(io.Discard, read); err != nil {
		return err
	}
	if got := hex.EncodeToString(whole.Sum(nil)); got != in.tarballSHA512 {
		return fmt.Errorf("package %s has SHA-512 %s, pinned is %s: "+
			"it is not the file this version of Weft was built with; do not use it", npmPackage, got, in.tarballSHA512)
	}
	got, err := fileSHA256(path)
	if err != nil {
		return err
	}
	if got != in.lib.sha256 {
		return fmt.Errorf("%s in package %s has SHA-256 %s, pinned is %s: the pin in scripts/setup is wrong",
			in.lib.member, npmPackage, got, in.lib.sha256)
	}
	return nil
}

// extract copies one member of a gzipped tar stream to path.
func extract(r io.Reader, member, path string) error {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the package holds no %s", member)
		}
		if err != nil {
			return err
		}
		if header.Name == member {
			break
		}
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, archive)
	return errors.Join(err, out.Close())
}

func fileSHA256(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
