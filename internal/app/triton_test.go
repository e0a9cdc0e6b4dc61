package app

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
)

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
