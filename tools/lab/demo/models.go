package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/tools/lab/harness"
)

// The models of the demo.
const (
	policy    = "cartpole" // versions 1 and 2; the second is better
	baseline  = 1
	candidate = 2
	gait      = "hopper" // version 3, and 4 as its shadow
	walking   = 3
	limited   = 4
	ranker    = "ranker"
	// rankerVersion is of a color that no version of the policy has.
	rankerVersion = 2
	rankerWidth   = 1024
	rankerRows    = 8
	// rankerLayers make that many rows take a core some 6 ms.
	rankerLayers = 32
)

var manifests = map[string]string{
	policy: `# Version 1 answers. Version 2 waits for a canary.
versions: {policy: all}
target_latency: 60ms
traffic:
  split: [{slot: prod, version: 1, weight: 100}]
`,
	gait: `# Version 3 answers. Version 4 gets copies of its requests, in spare time, and answers nobody.
versions: {policy: all}
target_latency: 60ms
traffic:
  split: [{slot: prod, version: 3, weight: 100}]
  shadow: [{version: 4, sample: 0.5, tolerances: {action: 0.01}}]
`,
	ranker: `# A large network, of which a batch holds the device for long.
target_latency: 300ms
max_latency: 2s
batching: {max_batch_size: 32}
`,
}

// writeModels writes the repository: the trained policies, and a ranker of random weights.
func writeModels(repository, examples string) error {
	files := map[string][]byte{ranker + "/" + strconv.Itoa(rankerVersion) + "/model.onnx": rankerModel()}
	for model, manifest := range manifests {
		files[model+"/model.yaml"] = []byte(manifest)
	}
	for _, m := range []struct {
		name    string
		version int
	}{{policy, baseline}, {policy, candidate}, {gait, walking}} {
		name := filepath.Join(m.name, strconv.Itoa(m.version), "model.onnx")
		data, err := os.ReadFile(filepath.Join(examples, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: run it in the source tree of Weft, or name its examples/models with --models", err)
		}
		files[name] = data
		if err == nil && m.name == gait {
			err = writeShadow(filepath.Join(repository, gait), data)
		}
		if err != nil {
			return err
		}
	}
	return harness.WriteAll(repository, files)
}

// rankerModel returns a model that multiplies by the same random matrix again and again, so that its file is small and
// its batches are not: input "items" [batch, 1024] float32, output "scores" [batch, 1] float32.
func rankerModel() []byte {
	random := rand.New(rand.NewPCG(1, 1))
	weights := make([]float32, rankerWidth*rankerWidth)
	for i := range weights {
		weights[i] = float32(random.NormFloat64() / math.Sqrt(rankerWidth))
	}
	g := onnxgraph.New(ranker).Input("items", onnxgraph.Float, onnxgraph.BatchDim, rankerWidth)
	g.InitFloats("weights", []int64{rankerWidth, rankerWidth}, weights...)
	g.InitFloats("last", []int64{rankerWidth, 1}, weights[:rankerWidth]...)
	value := "items"
	for i := range rankerLayers {
		sum, out := fmt.Sprintf("sum_%d", i), fmt.Sprintf("value_%d", i)
		g.Node("MatMul", []string{value, "weights"}, []string{sum})
		g.Node("Tanh", []string{sum}, []string{out})
		value = out
	}
	g.Node("MatMul", []string{value, "last"}, []string{"scores"})
	return g.Output("scores", onnxgraph.Float, onnxgraph.BatchDim, 1).Marshal()
}
