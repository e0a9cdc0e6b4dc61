// Command pipelines writes the models that the example pipelines are made of: small networks with made-up weights.
package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/weftserve/weft/internal/onnxgraph"
)

func main() {
	folder := filepath.Join("examples", "pipelines")
	all := models()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file := filepath.Join(folder, name, "1", "model.onnx")
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, all[name], 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "pipelines: %v\n", err)
			os.Exit(1)
		}
	}
}

// models returns the files by the folders of their models.
func models() map[string][]byte {
	return map[string][]byte{
		"denoise/encoder": encoder(), "denoise/head": head(),
		"ranking/trigger": trigger(), "ranking/ranker": ranker(),
		"vision/prepare": prepare(), "vision/classify": classify(), "vision/best": best(),
	}
}

// network is a graph, and where its weights come from.
type network struct {
	*onnxgraph.Graph
	rng *rand.Rand
}

func newNetwork(name string, seed uint64) network {
	return network{onnxgraph.New(name), rand.New(rand.NewPCG(seed, 0))}
}

// weights adds an initializer. Numbers in other ranges than this would differ from processor to processor.
func (n network) weights(name string, shape ...int64) {
	size := int64(1)
	for _, s := range shape {
		size *= s
	}
	values := make([]float32, size)
	for i := range values {
		values[i] = n.rng.Float32() - 0.5
	}
	n.InitFloats(name, shape, values...)
}

func names(all ...string) []string { return all }

// encoder makes 16 features of an image of 64 pixels.
func encoder() []byte {
	n := newNetwork("encoder", 1)
	n.Input("image", onnxgraph.Float, "batch", 64)
	n.weights("w", 64, 16)
	n.weights("b", 16)
	n.Node("Gemm", names("image", "w", "b"), names("sum"))
	n.Node("Tanh", names("sum"), names("features"))
	return n.Output("features", onnxgraph.Float, "batch", 16).Marshal()
}

// head takes one step from noise to an action of four numbers, as policies do that denoise.
func head() []byte {
	n := newNetwork("head", 2)
	n.Input("features", onnxgraph.Float, "batch", 16).Input("x", onnxgraph.Float, "batch", 4)
	n.weights("w", 20, 4)
	n.weights("b", 4)
	n.InitFloats("rate", nil, 0.25)
	n.Node("Concat", names("features", "x"), names("both"), onnxgraph.IntAttr("axis", 1))
	n.Node("Gemm", names("both", "w", "b"), names("sum"))
	n.Node("Tanh", names("sum"), names("wanted"))
	n.Node("Sub", names("wanted", "x"), names("off"))
	n.Node("Mul", names("off", "rate"), names("step"))
	n.Node("Add", names("x", "step"), names("x_next"))
	return n.Output("x_next", onnxgraph.Float, "batch", 4).Marshal()
}

// trigger says how much a state asks for anything to be done.
func trigger() []byte {
	n := newNetwork("trigger", 3)
	n.Input("state", onnxgraph.Float, "batch", 8)
	n.weights("w", 8, 1)
	n.weights("b", 1)
	n.Node("Gemm", names("state", "w", "b"), names("sum"))
	n.Node("Sigmoid", names("sum"), names("urgency"))
	return n.Output("urgency", onnxgraph.Float, "batch", 1).Marshal()
}

// ranker orders five candidates by how well they fit a state.
func ranker() []byte {
	n := newNetwork("ranker", 4)
	n.Input("state", onnxgraph.Float, "batch", 8).Input("candidates", onnxgraph.Float, "batch", 5, 3)
	n.weights("w", 8, 3)
	n.InitInt64s("last", []int64{1}, 2).InitInt64s("all", []int64{1}, 5)
	n.Node("MatMul", names("state", "w"), names("taste"))
	n.Node("Unsqueeze", names("taste", "last"), names("column"))
	n.Node("MatMul", names("candidates", "column"), names("products"))
	n.Node("Squeeze", names("products", "last"), names("worth"))
	n.Node("TopK", names("worth", "all"), names("scores", "order"), onnxgraph.IntAttr("axis", 1))
	return n.Output("scores", onnxgraph.Float, "batch", 5).Output("order", onnxgraph.Int64, "batch", 5).Marshal()
}

// prepare makes what a network takes of images as cameras give them: 16 by 16 pixels, channels first, a mean of 0.
func prepare() []byte {
	n := newNetwork("prepare", 5)
	n.Opset("", 18)
	n.Input("image", onnxgraph.Uint8, "batch", "height", "width", 3)
	n.InitInt64s("size", []int64{2}, 16, 16)
	n.InitFloats("mean", []int64{3, 1, 1}, 124, 116, 104).InitFloats("deviation", []int64{3, 1, 1}, 58, 57, 57)
	n.Node("Cast", names("image"), names("numbers"), onnxgraph.IntAttr("to", int64(onnxgraph.Float)))
	n.Node("Transpose", names("numbers"), names("planes"), onnxgraph.IntsAttr("perm", 0, 3, 1, 2))
	n.Node("Resize", names("planes", "", "", "size"), names("small"),
		onnxgraph.IntsAttr("axes", 2, 3), onnxgraph.StringAttr("mode", "linear"))
	n.Node("Sub", names("small", "mean"), names("centred"))
	n.Node("Div", names("centred", "deviation"), names("pixels"))
	return n.Output("pixels", onnxgraph.Float, "batch", 3, 16, 16).Marshal()
}

// classify is a network for ten classes.
func classify() []byte {
	n := newNetwork("classify", 6)
	n.Input("pixels", onnxgraph.Float, "batch", 3, 16, 16)
	n.weights("filters", 8, 3, 3, 3)
	n.weights("w", 8, 10)
	n.weights("b", 10)
	n.Node("Conv", names("pixels", "filters"), names("maps"), onnxgraph.IntsAttr("strides", 2, 2))
	n.Node("Relu", names("maps"), names("active"))
	n.Node("GlobalAveragePool", names("active"), names("means"))
	n.Node("Flatten", names("means"), names("rows"))
	n.Node("Gemm", names("rows", "w", "b"), names("logits"))
	return n.Output("logits", onnxgraph.Float, "batch", 10).Marshal()
}

// best chooses the three most probable classes.
func best() []byte {
	n := newNetwork("best", 7)
	n.Input("logits", onnxgraph.Float, "batch", 10)
	n.InitInt64s("three", []int64{1}, 3)
	n.Node("Softmax", names("logits"), names("all"), onnxgraph.IntAttr("axis", 1))
	n.Node("TopK", names("all", "three"), names("probabilities", "classes"), onnxgraph.IntAttr("axis", 1))
	return n.Output("probabilities", onnxgraph.Float, "batch", 3).Output("classes", onnxgraph.Int64, "batch", 3).Marshal()
}
