package modelrepo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// strew puts so many empty files into a directory, before any other by name.
func strew(t *testing.T, dir string, files int) {
	t.Helper()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("a%06d.txt", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyStrayFilesAreCheap: files that are nobody's model are not looked at one by one. The allocations for each such
// file show whether they are.
func TestManyStrayFilesAreCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 18 seconds")
	}
	const files = 20_000
	// that many names, or the files of a version, count
	for where, most := range map[string]float64{".": 3, "m": 5, "m/1": 14} {
		repo := t.TempDir()
		build(t, repo, map[string]string{"m/1/model.onnx": "m"})
		strew(t, filepath.Join(repo, where), files)
		r, err := modelrepo.Open(repo)
		if err != nil {
			t.Fatal(err)
		}
		if l := r.Scan(); l.Err() != nil || len(l.Models) != 1 || len(l.Models[0].Selected) != 1 {
			t.Fatalf("%s: %s", where, show(l, repo))
		}
		each := testing.AllocsPerRun(1, func() { r.Scan() }) / files
		t.Logf("%s: %.1f allocations for each file", where, each)
		if each > most {
			t.Errorf("%s: %.1f allocations for each stray file, want %.0f at most", where, each, most)
		}
	}
}

// TestManyFilesOfAVersion: the model itself is always looked at, and of files beyond the bound that some came or went.
func TestManyFilesOfAVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 16 seconds")
	}
	repo := t.TempDir()
	build(t, repo, map[string]string{"m/1/model.onnx": "m", "m/1/z": "z"})
	strew(t, filepath.Join(repo, "m/1"), 10_001)
	seen := map[string]string{fingerprint(t, repo): "at first"}
	for _, step := range []struct {
		what   string
		change func(*testing.T, string)
	}{
		{"the model", put("m/1/model.onnx", "longer")}, {"one more", put("m/1/zz", "")}, {"one less", remove("m/1/z")},
	} {
		step.change(t, repo)
		now := fingerprint(t, repo)
		if before, same := seen[now]; same {
			t.Errorf("%s: the fingerprint is as it was %s", step.what, before)
		}
		seen[now] = "after " + step.what
	}
}

// TestOddThingsAreCounted: some are reported one by one, and how many more there are.
func TestOddThingsAreCounted(t *testing.T) {
	repo := t.TempDir()
	build(t, repo, map[string]string{"m/1/model.onnx": "m"})
	for i := range 200 {
		build(t, repo, map[string]string{
			fmt.Sprintf("m/v%03d/", i): "", fmt.Sprintf("m/%d", 100+i): "",
			fmt.Sprintf("no model %d/", i): "",
		})
	}
	r, err := modelrepo.Open(repo)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Scan()
	if n := len(l.Models[0].Notes); n != 11 || !strings.Contains(l.Models[0].Notes[10], "390 more") {
		t.Errorf("%d notes: %q", n, l.Models[0].Notes)
	}
	if n := len(l.Faults); n != 11 || !strings.Contains(l.Faults[10].Error(), "190 more") {
		t.Errorf("%d faults: %v", n, l.Faults)
	}
}
