package app

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
)

// TestCheckOfAModelThatCrashes on each row: that is a fault, although a server would serve it.
func TestCheckOfAModelThatCrashes(t *testing.T) {
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	g := onnxgraph.New("g").Input("a", onnxgraph.Int64, "n").Output("q", onnxgraph.Int64, "n")
	g.InitInt64s("least", nil, math.MinInt64).InitInt64s("minus", nil, -1)
	g.Node("Sub", []string{"a", "a"}, []string{"zero"}).Node("Add", []string{"zero", "least"}, []string{"m"})
	g.Node("Add", []string{"zero", "minus"}, []string{"d"}).Node("Div", []string{"m", "d"}, []string{"q"})
	repository := t.TempDir()
	dir := filepath.Join(repository, "m", "1")
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "model.onnx"), g.Marshal(), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
	if err := Check(s, Checking{Load: true}, &out, &errs); !errors.Is(err, errFaults) ||
		!strings.Contains(errs.String(), "model m version 1: the first made-up row ended its process: ") {
		t.Errorf("%v\n%s%s", err, &errs, &out)
	}
}

// TestCheckAsJSON has the settings, how the version is served and each fault.
func TestCheckAsJSON(t *testing.T) {
	repository := t.TempDir()
	for path, text := range map[string]string{
		"walker/model.yaml": "synth: {base: 1ms, inputs: {x: {dtype: fp32, shape: [-1, 4]}}, outputs: {y: {dtype: fp32, shape: [-1, 2]}}}\n" +
			"batching: {max_batch_size: 8}\n",
		"walker/2/none":     "",
		"broken/model.yaml": "wieght: 2\n",
		"broken/1/none":     "",
	} {
		path = filepath.Join(repository, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
	s.Listen = "127.0.0.1:7777"
	var out, errs strings.Builder
	if err := Check(s, Checking{Load: true, JSON: true}, &out, &errs); !errors.Is(err, errFaults) || errs.Len() > 0 {
		t.Errorf("%v, %s", err, &errs)
	}
	var found struct {
		Settings struct{ Listen string }
		Models   []struct {
			Name     string
			Settings struct{ Batching map[string]any }
			Versions []VersionFindings
		}
		Faults []string
	}
	if err := json.Unmarshal([]byte(out.String()), &found); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if found.Settings.Listen != "127.0.0.1:7777" || len(found.Models) != 1 || len(found.Faults) != 1 ||
		!strings.Contains(found.Faults[0], `did you mean "weight"?`) {
		t.Fatalf("%s", &out)
	}
	walker := found.Models[0]
	if walker.Name != "walker" || walker.Settings.Batching["max_batch_size"] != 8.0 || len(walker.Versions) != 1 {
		t.Fatalf("%s", &out)
	}
	v := walker.Versions[0]
	if v.Version != 2 || !v.Batched || v.MaxBatchSize != 8 || v.Proof != "examples" || v.Inputs[0].Name != "x" ||
		v.Inputs[0].Shape.String() != "[?,4]" || *v.Inputs[0].BatchDim != 0 || len(v.Costs) != 1 ||
		v.Costs[0].Executions[0].MedianUs < 1000 {
		t.Errorf("%s", &out)
	}
}

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
