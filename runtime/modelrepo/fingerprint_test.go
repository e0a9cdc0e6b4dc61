package modelrepo_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// fingerprint scans and returns the fingerprint of the only version of the only model.
func fingerprint(t *testing.T, repo string) string {
	t.Helper()
	r, err := modelrepo.Open(repo)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Scan()
	if len(l.Models) != 1 || len(l.Models[0].Versions) != 1 || l.Models[0].Versions[0].Fingerprint == "" {
		t.Fatalf("no version: %v", l)
	}
	return l.Models[0].Versions[0].Fingerprint
}

func TestFingerprint(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, repo string)
		same   bool
	}{
		"nothing":            {change: func(*testing.T, string) {}, same: true},
		"size":               {change: put("m/1/model.onnx", "longer")},
		"a file beside":      {change: put("m/1/weights.bin", "other")},
		"a file below":       {change: put("m/1/data/w.bin", "other")},
		"one more":           {change: put("m/1/more.bin", "")},
		"one less":           {change: remove("m/1/weights.bin")},
		"a name":             {change: rename("m/1/weights.bin", "m/1/weight.bin")},
		"a manifest":         {change: put("m/model.yaml", "weight: 2"), same: true},
		"a file on its way":  {change: put("m/1/.model.onnx.swp", "x"), same: true},
		"a hidden directory": {change: put("m/1/data/.git/x", "x"), same: true},
		"another file, as long": {change: func(t *testing.T,
			repo string,
		) {
			replaceAlike(t, filepath.Join(repo, "m/1/model.onnx"))
		}},
		"time": {change: func(t *testing.T, repo string) {
			if err := os.Chtimes(filepath.Join(repo, "m/1/weights.bin"), time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			repo := t.TempDir()
			build(t, repo, map[string]string{
				"m/1/model.onnx": "m", "m/1/weights.bin": "w", "m/1/data/w.bin": "w",
				// these must not lead it astray
				"m/1/a": "-> ../1", "m/1/b": "-> ../1", "m/1/c": "-> ../1", "m/1/d": "-> ../1", "m/1/out": "-> /",
				"m/1/nowhere": "-> nothing",
			})
			before := fingerprint(t, repo)
			tt.change(t, repo)
			if after := fingerprint(t, repo); (after == before) != tt.same {
				t.Errorf("before %s, after %s", before, after)
			}
		})
	}
}

// replaceAlike puts another file in the place of one, with the same size and times.
func replaceAlike(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", make([]byte, info.Size()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path+".new", time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
