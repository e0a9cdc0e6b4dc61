package fetch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/weftserve/weft/internal/ortlib"
)

// unpack writes the library to path, out of the package or as it is, and checks its digest. The first two bytes of gzip
// tell a package from a library.
func (p *Place) unpack(content io.Reader, path string) error {
	whole := bufio.NewReader(content)
	if head, err := whole.Peek(2); err == nil && bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return p.unpackPackage(whole, path)
	}
	if err := write(whole, path, most); err != nil {
		return err
	}
	got, err := fileSHA256(path)
	if err == nil && got != p.lib.sha256 {
		err = fmt.Errorf("the file, of SHA-256 %s, is neither the npm package %s nor its library for %s/%s, which setup "+
			"takes alone; --onnxruntime-lib and %s use any library", got, Package, runtime.GOOS, runtime.GOARCH, ortlib.EnvVar)
	}
	return err
}

// unpackPackage checks the digest of the whole package before it reports anything else: of a wrong package no other
// error is of use.
func (p *Place) unpackPackage(content io.Reader, path string) error {
	whole := sha512.New()
	read := io.TeeReader(content, whole)
	extractErr := extract(read, p.lib.member, path)
	// The archive reader stops at the last member; the digest is of the whole file.
	if _, err := io.Copy(io.Discard, read); err != nil {
		return fmt.Errorf("read package %s: %w", Package, err)
	}
	// What was unpacked from a wrong package is in the work directory, and is removed with it.
	if got := hex.EncodeToString(whole.Sum(nil)); got != p.tarballSHA512 {
		return fmt.Errorf("package %s has SHA-512 %s, pinned is %s: "+
			"it is not the file this version of Weft was built with; do not use it", Package, got, p.tarballSHA512)
	}
	if extractErr != nil {
		return fmt.Errorf("unpack %s: %w", Package, extractErr)
	}
	got, err := fileSHA256(path)
	if err == nil && got != p.lib.sha256 {
		err = fmt.Errorf("%s in package %s has SHA-256 %s, pinned is %s: Weft's pin of it is wrong",
			p.lib.member, Package, got, p.lib.sha256)
	}
	return err
}

// extract copies one member of a gzipped tar stream to path, and reads no further.
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
			return write(archive, path, most)
		}
	}
}

// most bounds what is written before its digest is known: a wrong file must not fill the disk. The library has some 30
// MB.
const most = 256 << 20

// write creates an executable file of at most so many bytes. One that is there already is an error.
func write(r io.Reader, path string, most int64) error {
	// Libraries are executable by custom; some systems demand it.
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	// One byte more than the most tells a file that is too large from one that is not.
	n, err := io.Copy(out, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("the library in it has more than %d bytes: it is not the one that Weft was built with", most)
	}
	return errors.Join(err, out.Close())
}

// fileSHA256 returns the digest of a file in hexadecimal, without holding the file in memory.
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
