package modelrepo_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// model scans a repository with one model, which may be faulty.
func model(t *testing.T, repo string) *modelrepo.Model {
	t.Helper()
	r, err := modelrepo.Open(repo)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Scan()
	if len(l.Models) != 1 {
		t.Fatalf("listing %v", l)
	}
	return &l.Models[0]
}

const labelled = `# Ours.
weight: 2
versions:
  policy: all # of them
  labels:
    # What everybody gets.
    stable: 1 # since May
    old: 1
traffic: {split: [{slot: a, version: 1, weight: 1}]}
`

func TestWriteLabels(t *testing.T) {
	for name, tt := range map[string]struct {
		before *string
		labels map[string]int64
		after  string
	}{
		"no manifest":  {nil, map[string]int64{"stable": 1}, "versions:\n  labels: {stable: 1}\n"},
		"an empty one": {new(""), map[string]int64{"stable": 2, "canary": 1}, "versions:\n  labels: {canary: 1, stable: 2}\n"},
		"set, add and remove": {
			new(labelled),
			map[string]int64{"stable": 2, "canary": 1},
			strings.NewReplacer("stable: 1", "stable: 2", "    old: 1\n", "    canary: 1\n").Replace(labelled),
		},
		"all removed": {
			new("versions: {labels: {a: 1}} # none\n"), nil, "versions: {labels: {}} # none\n",
		},
		"an older version, which stays selected": {
			new("versions: {policy: {latest: 1}}\n"), map[string]int64{"a": 1}, "versions: {labels: {a: 1}, policy: {latest: 1}}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo := t.TempDir()
			build(t, repo, map[string]string{"m/1/model.onnx": "m", "m/2/model.onnx": "m"})
			file := filepath.Join(repo, "m", "model.yaml")
			if tt.before != nil {
				if err := os.WriteFile(file, []byte(*tt.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if err := modelrepo.WriteLabels(model(t, repo), tt.labels); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, string(after)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
			m := model(t, repo)
			if diff := cmp.Diff(tt.labels, m.Manifest.Versions.Labels, cmpopts.EquateEmpty()); diff != "" || m.Err != nil {
				t.Errorf("labels (-want +got):\n%s\nerror %v", diff, m.Err)
			}
			if info, err := os.Stat(file); err != nil || tt.before != nil && info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			onlyHas(t, filepath.Join(repo, "m"), "1", "2", "model.yaml")
		})
	}
}

func onlyHas(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("files (-want +got):\n%s\n%v", diff, err)
	}
}

func TestWriteLabelsLeavesAFileThatSaysSo(t *testing.T) {
	repo := t.TempDir()
	build(t, repo, map[string]string{"m/1/model.onnx": "m", "m/model.yaml": "versions: {labels: {stable: 1}}"})
	file := filepath.Join(repo, "m", "model.yaml")
	before := stat(t, file)
	if err := modelrepo.WriteLabels(model(t, repo), map[string]int64{"stable": 1}); err != nil {
		t.Fatal(err)
	}
	// The line lacks its end, which alone is no reason to write.
	if after := stat(t, file); !os.SameFile(before, after) {
		t.Error("the file was written although its labels were right")
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestWriteLabelsFaults(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"versions.labels.next: version 2 does not exist; the model has 1": {"m/model.yaml": "# fine"},
		"version 2 is not selected by versions.policy, which selects 1": {
			"m/2/model.onnx": "m", "m/model.yaml": "versions: {policy: {specific: [1]}}",
		},
		"TMP/m/model.yaml is a symbolic link, which would be replaced; change the file that it leads to": {
			"m/2/model.onnx": "m", "m/data.yaml": "# fine", "m/model.yaml": "-> data.yaml",
		},
		"TMP/m/model.yaml is not a regular file": {"m/2/model.onnx": "m", "m/model.yaml/": ""},
		"unknown key; did you mean":              {"m/2/model.onnx": "m", "m/model.yaml": "wieght: 2"},
		"TMP/m/model.yaml:1:9: not valid YAML":   {"m/2/model.onnx": "m", "m/model.yaml": "weight: {"},
		"TMP/m/model.yaml: versions.labels cannot be rewritten in place: it is in braces that have comments": {
			"m/2/model.onnx": "m", "m/model.yaml": "versions: {policy: all, labels: {a: 1, # the first\n b: 1}}",
		},
	} {
		t.Run(want, func(t *testing.T) {
			repo := t.TempDir()
			build(t, repo, map[string]string{"m/1/model.onnx": "m"})
			build(t, repo, files)
			m, file := model(t, repo), filepath.Join(repo, "m", "model.yaml")
			before := stat(t, file)
			err := modelrepo.WriteLabels(m, map[string]int64{"next": 2})
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), repo, "TMP"), want) ||
				!strings.HasPrefix(err.Error(), "the labels of model m are not written: ") {
				t.Errorf("error %v", err)
			}
			if !os.SameFile(before, stat(t, file)) {
				t.Error("the file was replaced")
			}
		})
	}
}

func TestWriteLabelsRespectsReadOnly(t *testing.T) {
	repo := t.TempDir()
	build(t, repo, map[string]string{"m/1/model.onnx": "m", "m/model.yaml": "# mine"})
	m := model(t, repo)
	if err := os.Chmod(m.ManifestPath, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := modelrepo.WriteLabels(m, map[string]int64{"a": 1}); err == nil || !strings.Contains(err.Error(), "model.yaml is read-only") {
		t.Errorf("error %v", err)
	}
	if err := os.RemoveAll(m.Dir); err != nil {
		t.Fatal(err)
	}
	if err := modelrepo.WriteLabels(m, map[string]int64{"a": 1}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v", err)
	}
}

// Somebody else may write the manifest while labels are being put into its former text.
func TestReplaceFileNoticesOtherWriters(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	file := filepath.Join(dir, "model.yaml")
	build(t, dir, map[string]string{"model.yaml": "weight: 2"})
	before := stat(t, file)
	if err := modelrepo.ReplaceFile(root, file, nil, []byte("weight: 3")); err == nil || !strings.Contains(err.Error(), "changed by somebody else") {
		t.Errorf("a file that has appeared is replaced: %v", err)
	}
	build(t, dir, map[string]string{"model.yaml": "weight: 25"})
	if err := os.Chtimes(file, time.Time{}, before.ModTime()); err != nil { // as if the clock were coarse
		t.Fatal(err)
	}
	if err := modelrepo.ReplaceFile(root, file, before, []byte("weight: 3")); err == nil || !strings.Contains(err.Error(), "changed by somebody else") {
		t.Errorf("a file that has changed is replaced: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := modelrepo.ReplaceFile(root, file, before, []byte("weight: 3")); err == nil || !strings.Contains(err.Error(), "changed by somebody else") {
		t.Errorf("a file that has gone is made again: %v", err)
	}
	onlyHas(t, dir)
}
