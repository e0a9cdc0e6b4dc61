package modelrepo_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the difference before committing it")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func read(t *testing.T, file string) modelrepo.Manifest {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := modelrepo.ReadManifest(file, source)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEveryKeyIsRead(t *testing.T) {
	want := modelrepo.Manifest{
		ONNX: modelrepo.ONNX{
			Providers:      []modelrepo.Provider{modelrepo.TensorRT, modelrepo.CUDA, modelrepo.CPU},
			IntraOpThreads: modelrepo.AutoThreads,
			Device:         "cuda:1", DeviceMemoryLimit: 2 * config.GiB, ArenaExtendStrategy: "next_power_of_two", TF32: true,
			ConvAlgoSearch: "exhaustive", PinBuffers: true, CUDAGraphs: true,
		},
		Isolation:     modelrepo.IsolateModel,
		Replicas:      modelrepo.AutoReplicas,
		Weight:        2.5,
		Fairness:      modelrepo.FairModel,
		TargetLatency: config.Duration(20 * time.Millisecond),
		Batching: modelrepo.Batching{
			Mode: modelrepo.BatchOff, MaxBatchSize: 32,
			MaxBatchCost: config.Duration(50 * time.Millisecond), BatchTimeout: config.Duration(500 * time.Microsecond),
			MaxQueue: 10, OnFull: modelrepo.WaitWhenFull, MaxRequestRows: 128,
			AllowedBatchSizes: []int{1, 8, 32}, Audit: 0.05,
			BatchDim:  modelrepo.BatchDim{Inputs: map[string]int{"state": 1}, Outputs: map[string]int{"stateN": 1}},
			Unbatched: []string{"sr"},
			VariableDims: map[string]modelrepo.VariableDim{
				"ids":  {Axis: 1, Buckets: []int{32, 64}, PadValue: "-1"},
				"gaps": {Axis: 2, Buckets: []int{8}, PadValue: "-.inf"},
				"text": {Axis: 1, Buckets: []int{16}, PadValue: "[PAD]"},
				"mask": {Axis: 1, Buckets: []int{32, 64}},
			},
		},
		Versions: modelrepo.Versions{
			Policy:     modelrepo.Policy{Specific: []int64{3, 1}},
			Transition: modelrepo.ResourceFirst,
			Labels:     map[string]int64{"stable": 1, "canary": 3},
		},
		Traffic: &modelrepo.Traffic{
			Split: []modelrepo.SplitEntry{{Slot: "a", Version: 1, Weight: 90}, {Slot: "b.2", Version: 3, Weight: 0}},
			Shadow: []modelrepo.ShadowEntry{
				{
					Version: 3, Sample: 0.5, Per: modelrepo.PerRequest, Tolerance: 1e-12,
					Tolerances: map[string]float64{"action": 1e-2, "value": 0},
				},
				{Version: 1, Sample: 1, Per: modelrepo.PerEpisode, Tolerance: 0.001},
			},
		},
		Warmup: []modelrepo.Warmup{
			{
				Name: "a", BatchSize: 4, Count: 3, Inputs: map[string]modelrepo.WarmupInput{
					"x": {DType: modelrepo.DType(tensor.Float16), Shape: tensor.Shape{2, 3}, Data: modelrepo.ZeroData},
				},
			},
			{BatchSize: 1, Count: 1, Inputs: map[string]modelrepo.WarmupInput{
				"x": {Shape: tensor.Shape{}},
				"y": {Shape: tensor.Shape{5}, File: "deep/file"},
			}},
		},
		State: &modelrepo.State{
			Pairs:   []modelrepo.StatePair{{Input: "h", Output: "hn"}},
			Windows: []modelrepo.StateWindow{{Input: "hist", Of: "obs", Steps: 8}},
			Initial: map[string]config.Scalar{"h": "0.5", "hist": "hist.json"},
			Start:   "reset", End: "finish", Ready: "on", ID: "number",
			MaxEpisodes: 50, Idle: config.Duration(5 * time.Second),
			OnVersionChange: modelrepo.CarryOnChange, Bind: modelrepo.BindStream,
		},
	}
	if diff := cmp.Diff(want, read(t, "testdata/full.yaml")); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestSynthIsRead(t *testing.T) {
	want := modelrepo.Defaults()
	want.Synth = &modelrepo.Synth{
		Base: config.Duration(20 * time.Millisecond), PerRow: config.Duration(time.Millisecond),
		Jitter: 0.1, Seed: -1, FailOnNaN: true, FailEvery: 100,
		Inputs: map[string]modelrepo.Tensor{
			"obs":   {DType: modelrepo.DType(tensor.Float32), Shape: tensor.Shape{-1, 48}},
			"words": {DType: modelrepo.DType(tensor.String), Shape: tensor.Shape{-1, -1}},
		},
		Outputs: map[string]modelrepo.Tensor{
			"action": {DType: modelrepo.DType(tensor.Float16), Shape: tensor.Shape{-1, 12}},
			"count":  {DType: modelrepo.DType(tensor.Int64), Shape: tensor.Shape{}},
		},
	}
	want.Versions.Policy = modelrepo.Policy{All: true}
	if diff := cmp.Diff(want, read(t, "testdata/synth.yaml")); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

// The defaults are written out once more here, as `weft check` shows them: changing one is a decision.
func TestPrint(t *testing.T) {
	defaults, full, synth := modelrepo.Defaults(), read(t, "testdata/full.yaml"), read(t, "testdata/synth.yaml")
	synth.State = &modelrepo.State{None: true}
	synth.State.SetDefaults()
	for name, m := range map[string]*modelrepo.Manifest{"defaults": &defaults, "full": &full, "synth": &synth} {
		text, err := modelrepo.Print(m)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/print/"+name+".txt", text)
		again, err := modelrepo.ReadManifest("printed", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(m, &again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s read back (-want +got):\n%s", name, diff)
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	m := modelrepo.Defaults()
	if err := m.Check().Err(); err != nil {
		t.Error(err)
	}
}

// TestManifestFaults holds the whole text that a user sees about testdata/faults/NAME.yaml.
func TestManifestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no input: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = modelrepo.ReadManifest(filepath.Base(file), source)
			if err == nil {
				t.Fatal("no fault was found")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func FuzzReadManifest(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/faults/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(source)
		}
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		m, err := modelrepo.ReadManifest("model.yaml", source)
		if err != nil {
			return
		}
		text, err := modelrepo.Print(&m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := modelrepo.ReadManifest("printed", []byte(text))
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, text)
		}
		if diff := cmp.Diff(m, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("read back (-want +got):\n%s\nfrom\n%s", diff, text)
		}
	})
}
