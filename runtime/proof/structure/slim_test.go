package structure_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/proof/structure"
)

// inGraph puts a field into the graph of a finished model: two encodings one after the other are one of both merged.
func inGraph(model []byte, field protowire.Number, header []byte, length uint64) []byte {
	graph := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(len(header))+length)
	graph = append(graph, header...)
	out := protowire.AppendTag(bytes.Clone(model), 7, protowire.BytesType)
	return append(protowire.AppendVarint(out, uint64(len(graph))+length), graph...)
}

// The weights of a file of nearly 2 GB are not read, and take no memory.
func TestWeightsAreLeftAlone(t *testing.T) {
	const weights = 1_900_000_000
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 4).Output("y", onnxgraph.Float, "N", 118_750_000)
	model := g.Node("MatMul", []string{"x", "w"}, []string{"y"}).Marshal()
	var tensor []byte
	for _, d := range []uint64{4, weights / 16} {
		tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 1, protowire.VarintType), d)
	}
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 2, protowire.VarintType), uint64(onnxgraph.Float))
	tensor = protowire.AppendString(protowire.AppendTag(tensor, 8, protowire.BytesType), "w")
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 9, protowire.BytesType), weights)
	head := inGraph(model, 5, tensor, weights)
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", head)
	if err := os.Truncate(path, int64(len(head))+weights); err != nil { // a hole
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := structure.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("reading took %d bytes of memory", took)
	}
	if v := m.Prove(map[string]int{"x": 0}); !v.Proven {
		t.Errorf("%+v", v)
	}
	// A byte less than it says is a damaged file.
	if err := os.Truncate(path, int64(len(head))+weights-1); err != nil {
		t.Fatal(err)
	}
	if _, err := structure.ReadFile(path); err == nil || !strings.Contains(err.Error(), "is no ONNX model") {
		t.Errorf("a file cut short: %v", err)
	}
}

// An attribute with more elements than are kept is not taken for one that has none.
func TestLongAttributes(t *testing.T) {
	g := onnxgraph.New("g").Opset("", 11).Input("x", onnxgraph.Float, "N", 4).Output("y", onnxgraph.Float, "N", 4)
	g.Node("Squeeze", []string{"x"}, []string{"y"}, onnxgraph.IntsAttr("axes", make([]int64, 100_000)...))
	v := readModel(t, g.Marshal()).Prove(map[string]int{"x": 0})
	if v.Proven || v.Reason != `its attribute "axes" is no list of integers` {
		t.Errorf("%+v", v)
	}
}

type failingReader struct{ io.ReaderAt }

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errors.New("the disk is gone") }

func TestDamagedFiles(t *testing.T) {
	good := onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 4).Output("y", onnxgraph.Float, "N", 4).
		Node("Relu", []string{"x"}, []string{"y"}).Marshal()
	deep := []byte{}
	for range 400 { // graph, node, attribute, graph, ...
		for _, field := range []protowire.Number{6, 5, 1} {
			deep = protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), deep)
		}
	}
	for name, model := range map[string][]byte{
		"empty": {}, "text": []byte("hello, world"), "cut": good[:len(good)-3], "no graph": {8, 8},
		"huge length": {0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"long number": bytes.Repeat([]byte{0xff}, 40),
		"groups":      {0x3b, 0x3c},
		"deep":        protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), deep),
	} {
		if m, err := structure.Read(bytes.NewReader(model), int64(len(model))); err == nil {
			t.Errorf("%s: read as a model of %d nodes", name, m.Prove(nil).Nodes)
		}
	}
	if _, err := structure.Read(failingReader{}, 100); err == nil {
		t.Error("a disk that fails was not noticed")
	}
	if _, err := structure.ReadFile(filepath.Join(t.TempDir(), "none.onnx")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Whatever a file holds, reading and proving it end, with an error or a verdict.
func FuzzProve(f *testing.F) {
	for _, line := range ruleLines(f) {
		if s, err := sketch.Parse(line.sketch); err == nil {
			f.Add(s.Graph.Marshal())
		}
	}
	f.Add(endless())
	// Each operator with inputs, outputs and attributes that it cannot have.
	body := onnxgraph.New("").UnshapedInput("a", onnxgraph.Int64).UnshapedInput("b", onnxgraph.Bool).UnshapedInput("c",
		onnxgraph.Float)
	body.AnyOutput("d").Node("Identity", []string{"b"}, []string{"d"})
	for _, name := range structure.Operators() {
		dot := strings.LastIndex(name, ".")
		for _, inputs := range [][]string{
			{},
			{""},
			{"x"},
			{"", "", "x"},
			{"i", "", "x"},
			{"x", "x", "i", "i", "i", "i", "x"},
		} {
			for _, n := range []int64{-9, 1, 9} {
				g := onnxgraph.New("g").Opset("com.microsoft", 1).Opset("ai.onnx.ml", 3)
				g.Input("x", onnxgraph.Float, "N", 4).Input("i", onnxgraph.Int64, "N").AnyOutput("y").AnyOutput("z")
				g.DomainNode(name[:max(dot, 0)], name[dot+1:], inputs, []string{"y", "z"},
					onnxgraph.GraphAttr("body", body),
					onnxgraph.GraphAttr("then_branch", body), onnxgraph.GraphAttr("else_branch", body),
					onnxgraph.IntAttr("num_scan_inputs", n),
					onnxgraph.IntAttr("axis", n), onnxgraph.IntAttr("batch_dims", n), onnxgraph.IntsAttr("axes", n),
					onnxgraph.IntsAttr("perm", 0, n),
					onnxgraph.IntAttr("to", 12))
				f.Add(g.Marshal())
			}
		}
	}
	f.Fuzz(func(t *testing.T, model []byte) {
		m, err := structure.Read(bytes.NewReader(model), int64(len(model)))
		if err != nil {
			return
		}
		for _, name := range []string{"x", "i"} {
			v := m.Prove(map[string]int{name: 0})
			if v.Proven != (v.Reason == "") || v.Proven && v.Mixes || !v.Proven && v.Outputs != nil {
				t.Errorf("%+v", v)
			}
		}
	})
}
