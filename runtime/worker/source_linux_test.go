package worker_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
)

// TestFile: each process in which a session is opened gets its file, for as long as the session is open, and whatever
// becomes of the one that the caller has.
func TestFile(t *testing.T) {
	p, _ := newPool(t)
	path := filepath.Join(t.TempDir(), "factor")
	content := binary.LittleEndian.AppendUint32(nil, math.Float32bits(3))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Open(t.Context(), onCPU, model{}, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, p)
	if err := errors.Join(file.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := run(t.Context(), o, 4); err != nil || !slices.Equal(got, []float32{12}) {
			t.Errorf("%v, %v", got, err)
		}
		crashes(t, other)
	}
	// Opening the session again takes another one for a moment.
	weftest.Until(t, "one descriptor of the file, the session's", func() bool { return held(t, path) == 1 })
	if err := o.Session.Close(); err != nil {
		t.Error(err)
	}
	weftest.Until(t, "no descriptor of a closed session's file", func() bool { return held(t, path) == 0 })
	if _, err := p.Open(t.Context(), onCPU, model{}, file, nil); err == nil {
		t.Errorf("a closed file: %v", err)
	}
}

// descriptors lists the files that this process has open.
func descriptors(t *testing.T) (targets []string) {
	t.Helper()
	const dir = "/proc/self/fd"
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		target, _ := os.Readlink(filepath.Join(dir, e.Name())) // it may be closed meanwhile
		targets = append(targets, target)
	}
	return targets
}

// held counts the descriptors of a file that was removed.
func held(t *testing.T, path string) (n int) {
	for _, target := range descriptors(t) {
		if target == path+" (deleted)" {
			n++
		}
	}
	return n
}
