package fetch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
)

// TestTake takes the files twice: what is in place does not matter. It tells how far it is, since a file has a size.
func TestTake(t *testing.T) {
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"the package", packageOf(t, content)},
		{"the library", []byte(content)},
	} {
		t.Run(file.name, func(t *testing.T) {
			p, _, _ := newPlace(t)
			for times := range int64(2) {
				if err := p.Take(fileOf(t, file.content)); err != nil {
					t.Fatal(err)
				}
				size := int64(len(file.content))
				if read, of := p.Read(); read != size*(times+1) || of != size {
					t.Errorf("read %d bytes of %d, after %d files of %d", read, of, times+1, size)
				}
			}
			wantOnly(t, p.path)
		})
	}
}

func TestTakeRefuses(t *testing.T) {
	whole := packageOf(t, content)
	for _, tt := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"no file", nil, "none.tgz"},
		{"another library", []byte("another"), "--onnxruntime-lib and " + ortlib.EnvVar + " use any library"},
		{"an empty file", nil, "neither the npm package " + Package},
		{"another package", packageOf(t, "another"), "do not use it"},
		{"a package cut short", whole[:len(whole)/2], "do not use it"},
		{"two bytes of a package", whole[:2], "do not use it"},
		{"more than the package", append(slices.Clip(whole), 0), "do not use it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _, _ := newPlace(t)
			file := filepath.Join(t.TempDir(), "none.tgz") // which is not there
			if tt.name != "no file" {
				file = fileOf(t, tt.content)
			}
			err := p.Take(file)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Take() error %v, want one with %q", err, tt.want)
			}
			if left, err := os.ReadDir(filepath.Dir(p.path)); err != nil || len(left) > 0 {
				t.Errorf("the folder holds %v (%v), want nothing", left, err)
			}
		})
	}
}

// TestWriteIsBounded: what has no end does not fill the disk before anybody looks at it.
func TestWriteIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "library")
	err := write(strings.NewReader("12345"), path, 4)
	if err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("write() error %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 5 {
		t.Errorf("%v, %v", info, err)
	}
}

func fileOf(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
