package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
)

const member = "package/bin/libonnxruntime.so.1"

const content = "the library"

// packageOf returns an npm package that holds the content as its member.
func packageOf(t *testing.T, content string) []byte {
	t.Helper()
	// The data behind the library does not compress, so that reading the library stops short of the file's end.
	trailing := make([]byte, 1<<16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(trailing)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, file := range []struct{ name, content string }{
		{"package/package.json", "{}"},
		{member, content},
		{"package/README.md", string(trailing)},
	} {
		header := &tar.Header{Name: file.name, Size: int64(len(file.content)), Mode: 0o644}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// newPlace returns a place in a folder of its own, with the digests of a package that holds the content, a source of
// that package, and a count of its downloads.
func newPlace(t *testing.T) (p *Place, source Source, downloads *int) {
	t.Helper()
	packed := packageOf(t, content)
	libSum, packSum := sha256.Sum256([]byte(content)), sha512.Sum512(packed)
	p = &Place{
		path:          filepath.Join(t.TempDir(), "1.0", "lib", "libonnxruntime.so"),
		lib:           library{member: member, sha256: hex.EncodeToString(libSum[:])},
		tarballSHA512: hex.EncodeToString(packSum[:]),
	}
	downloads = new(int)
	return p, func(context.Context, string) (io.ReadCloser, error) {
		*downloads++
		return io.NopCloser(bytes.NewReader(packed)), nil
	}, downloads
}

// TestFetchTwiceDownloadsOnce also where a damaged library is in place.
func TestFetchTwiceDownloadsOnce(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		p, source, downloads := newPlace(t)
		if damaged {
			err := errors.Join(os.MkdirAll(filepath.Dir(p.path), 0o755), os.WriteFile(p.path, []byte("cut sho"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := p.Fetch(t.Context(), source); err != nil {
				t.Fatal(err)
			}
		}
		if *downloads != 1 {
			t.Errorf("damaged %v: downloads = %d, want 1", damaged, *downloads)
		}
		if read, of := p.Read(); read < 1<<16 || of != 0 {
			t.Errorf("read %d bytes of %d; want all of the package, of a number that its source does not know", read, of)
		}
		wantOnly(t, p.path)
	}
}

func TestFetchRefusesWrongDigests(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Place)
		want  string
	}{
		{"package", func(p *Place) { p.tarballSHA512 = strings.Repeat("0", 128) }, "SHA-512"},
		{"library", func(p *Place) { p.lib.sha256 = strings.Repeat("0", 64) }, "SHA-256"},
		{"no such member", func(p *Place) { p.lib.member = "package/none" }, "holds no package/none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, source, _ := newPlace(t)
			tt.spoil(p)
			err := p.Fetch(t.Context(), source)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Fetch() error %v, want one with %q", err, tt.want)
			}
			if _, err := os.Stat(p.path); err == nil {
				t.Errorf("%s was put in place", p.path)
			}
		})
	}
}

func TestFetchWithoutNetwork(t *testing.T) {
	p, _, _ := newPlace(t)
	source := func(context.Context, string) (io.ReadCloser, error) {
		return nil, errors.New("npm: getaddrinfo ENOTFOUND")
	}
	err := p.Fetch(t.Context(), source)
	if !errors.Is(err, ortlib.ErrMissing) {
		t.Fatalf("Fetch() error %v, want ErrMissing", err)
	}
	for _, part := range []string{p.path, "ENOTFOUND", "npm pack " + Package, "weft setup --from", ortlib.EnvVar} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %s", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
}

// wantOnly checks that the library has the content and that nothing but its licence was left next to it.
func wantOnly(t *testing.T, path string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		t.Errorf("library holds %q (%v), want %q", got, err, content)
	}
	var names []string
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{filepath.Base(path), licenceName}; err != nil || !slices.Equal(names, want) {
		t.Errorf("folder holds %v (%v), want %v", names, err, want)
	}
}
