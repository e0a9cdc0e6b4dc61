package app

import (
	"context"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/inference"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the difference before committing it")

const tritonExample = "../../examples/triton"

// tritonModels are the files of the example: an MLP for each version.
var tritonModels = map[string]uint64{"batched/1": 1, "batched/2": 2, "prioritized/1": 3, "warmed/1": 4}

// tritonRepository returns a copy of the example.
func tritonRepository(t *testing.T) string {
	t.Helper()
	repository := filepath.Join(t.TempDir(), "triton")
	if err := os.CopyFS(repository, os.DirFS(tritonExample)); err != nil {
		t.Fatal(err)
	}
	return repository
}

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

// TestTritonExampleIsChecked holds what `weft check` lists of the example.
func TestTritonExampleIsChecked(t *testing.T) {
	repository := tritonRepository(t)
	var out, errs strings.Builder
	s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
	if err := Check(s, Checking{}, &out, &errs); err != nil {
		t.Error(err)
	}
	got := strings.ReplaceAll(out.String()+errs.String(), repository, "examples/triton")
	const file = "testdata/triton_check.txt"
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

// infer sends rows of random observations in Triton's protocol, and returns the number of actions.
func infer(ctx context.Context, r *running, model string, rows int, parameters map[string]*inference.InferParameter,
) (elements int, err error) {
	data := make([]byte, 4*8*rows)
	rng := rand.New(rand.NewPCG(uint64(rows), 0))
	for i := range 8 * rows {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(rng.Float32()))
	}
	answer, err := inference.NewGRPCInferenceServiceClient(r.conn).ModelInfer(ctx, &inference.ModelInferRequest{
		ModelName: model, Parameters: parameters, RawInputContents: [][]byte{data},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "observation", Datatype: "FP32", Shape: []int64{int64(rows), 8}},
		},
	})
	for _, raw := range answer.GetRawOutputContents() {
		elements += len(raw) / 4
	}
	return elements, err
}

// TestTritonExampleIsServed, every model of it.
func TestTritonExampleIsServed(t *testing.T) {
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	repository := tritonRepository(t)
	r := serveFrom(t, repository, func(a *App) { a.WatchInterval = config.Duration(100 * time.Millisecond) })
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	client := inference.NewGRPCInferenceServiceClient(r.conn)
	for model, rows := range map[string]int{"batched": 32, "prioritized": 16, "warmed": 8} {
		for level := range int64(4) {
			n, err := infer(ctx, r, model, int(level)+1, map[string]*inference.InferParameter{
				"priority": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: level}},
			})
			if want := 2 * int(level+1); err != nil || n != want {
				t.Errorf("%s at level %d: %d elements, %v; want %d", model, level, n, err, want)
			}
		}
		answer, err := client.ModelConfig(ctx, &inference.ModelConfigRequest{Name: model})
		if c := answer.GetConfig(); err != nil || c.GetMaxBatchSize() != int32(rows) ||
			c.GetInput()[0].GetDims()[0] != 8 || c.GetInput()[0].GetDataType() != inference.DataType_TYPE_FP32 ||
			c.GetOutput()[0].GetDims()[0] != 2 {
			t.Errorf("%s is configured as %v (%v)", model, c, err)
		}
	}
	answer, err := client.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "prioritized"})
	policy := answer.GetConfig().GetDynamicBatching().GetDefaultQueuePolicy()
	if err != nil || policy.GetMaxQueueSize() != 256 || policy.GetDefaultTimeoutMicroseconds() != 2_000_000 {
		t.Errorf("queue policy %v, %v", policy, err)
	}
	weftest.Until(t, "both versions of batched are ready", func() bool {
		metadata, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "batched"})
		return err == nil && slices.Equal(metadata.GetVersions(), []string{"1", "2"})
	})
	replaceIn(t, filepath.Join(repository, "prioritized", "config.pbtxt"), "max_batch_size: 16", "max_batch_size: 4")
	weftest.Until(t, "the changed file is followed", func() bool {
		answer, err := client.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "prioritized"})
		return err == nil && answer.GetConfig().GetMaxBatchSize() == 4
	})
}

// replaceIn changes a file.
func replaceIn(t *testing.T, file, old, text string) {
	t.Helper()
	before, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(before), old) {
		t.Fatalf("%s has no %q: %v", file, old, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(before), old, text, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTritonDeclaresAnotherModel: what the file says of the model is compared with it, and the others are served.
func TestTritonDeclaresAnotherModel(t *testing.T) {
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	repository := tritonRepository(t)
	replaceIn(t, filepath.Join(repository, "warmed", "config.pbtxt"), "dims: [ 2 ]", "dims: [ 3 ]")
	replaceIn(t, filepath.Join(repository, "prioritized", "config.pbtxt"), "instance_group", `model_warmup {
	name: "of another size" batch_size: 2
	inputs { key: "observation" value { data_type: TYPE_FP32 dims: 7 random_data: true } }
}
instance_group`)
	r := serveFrom(t, repository, nil)
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if n, err := infer(ctx, r, "batched", 1, nil); err != nil || n != 2 {
		t.Errorf("another model: %d elements, %v", n, err)
	}
	if _, err := infer(ctx, r, "warmed", 1, nil); err == nil ||
		!strings.Contains(err.Error(), `config.pbtxt: output "action": dims [3], with the dimension of the batch before them`) {
		t.Errorf("error %v", err)
	}
	if _, err := infer(ctx, r, "prioritized", 1, nil); err == nil ||
		!strings.Contains(err.Error(), `warm-up request "of another size": inputs["observation"].shape`) {
		t.Errorf("error %v", err)
	}
}
