package app

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
)

func TestBuild(t *testing.T) {
	commit := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: "c0ffee"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: modified},
		}
	}
	for _, tt := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string // the line's beginning
		modified bool
	}{
		{"v1.2.3", nil, "weft v1.2.3, " + runtime.Version(), false},
		{"", nil, "weft unknown, " + runtime.Version(), false},
		{"v1.2.3", commit("false"), "weft v1.2.3, commit c0ffee of 2026-01-02T03:04:05Z, " + runtime.Version(), false},
		{"v1", commit("true"), "weft v1, commit c0ffee of 2026-01-02T03:04:05Z with changes, " + runtime.Version(), true},
	} {
		got := buildOf(&debug.BuildInfo{Main: debug.Module{Version: tt.version}, Settings: tt.settings})
		if !strings.HasPrefix(got.String(), tt.want) || got.Modified != tt.modified {
			t.Errorf("build %+v, %q; want %q...", got, got, tt.want)
		}
	}
}

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the difference before committing it")

const tritonExample = "../../examples/triton"

// tritonModels are the files of the example: an MLP for each version.
var tritonModels = map[string]uint64{"batched/1": 1, "batched/2": 2, "prioritized/1": 3, "warmed/1": 4}

// TestTritonExampleIsWritten: the model files are what this test says that they are.
func TestTritonExampleIsWritten(t *testing.T) {
	for version, seed := range tritonModels {
		file := filepath.Join(tritonExample, version, "model.onnx")
		want := onnxgraph.MLP(filepath.Dir(version), []int{8, 8, 2}, seed, "Tanh", "")
		if *rewrite {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not the network that it was (%v)", file, err)
		}
	}
}

// TestWhereTheStateMayBe: not where a scan would take it for a model, or for a part of one.
func TestWhereTheStateMayBe(t *testing.T) {
	dir := t.TempDir()
	repository, link := filepath.Join(dir, "models"), filepath.Join(dir, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(repository, "walker", "1"), 0o755),
		os.Symlink(repository, link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	const model = "would be taken for model"
	for state, want := range map[string]string{
		"auto": "", "none": "", "": "", "state": "", "models/.state": "", "models/.state/of/one": "",
		"models/walker/../../x": "", "models-state": "",
		"models": "is the repository itself", "link": "is the repository itself",
		"models/.":     "is the repository itself",
		"models/state": model, "models/walker": model, "models/walker/1": model, "link/walker/.state": model,
		"models/not/there/yet": model,
	} {
		c := Settings{Repositories: []string{"elsewhere", link}, Server: config.DefaultServer()}
		c.StateDir = state
		err := c.Check()
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), "--state-dir: "+state+" "+want)) {
			t.Errorf("--state-dir %s: %v; want %q", state, err, want)
		}
	}
}
