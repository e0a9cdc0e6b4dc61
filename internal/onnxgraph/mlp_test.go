package onnxgraph_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
)

func TestMLP(t *testing.T) {
	b := onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 1, "Elu", "")
	graph := decode(t, path(t, b, 7).bytes)

	var ops []string
	for _, n := range graph[1] {
		ops = append(ops, string(path(t, n.bytes, 4).bytes))
	}
	if diff := cmp.Diff([]string{"Gemm", "Elu", "Gemm", "Elu", "Gemm"}, ops); diff != "" {
		t.Errorf("operators (-want +got):\n%s", diff)
	}
	var sizes []int
	for _, tensor := range graph[5] {
		sizes = append(sizes, len(path(t, tensor.bytes, 9).bytes)/4)
	}
	if diff := cmp.Diff([]int{48 * 256, 256, 256 * 128, 128, 128 * 12, 12}, sizes); diff != "" {
		t.Errorf("elements of weights and biases (-want +got):\n%s", diff)
	}
	for name, info := range map[string][]byte{"observation": graph[11][0].bytes, "action": graph[12][0].bytes} {
		if got := string(path(t, info, 1).bytes); got != name {
			t.Errorf("tensor is named %q, want %q", got, name)
		}
		if got := string(path(t, info, 2, 1, 2, 1, 2).bytes); got != "batch" {
			t.Errorf("%s: first dim is %q, want batch", name, got)
		}
	}
	last := graph[1][len(graph[1])-1]
	if got := string(path(t, last.bytes, 2).bytes); got != "action" {
		t.Errorf("the last node writes %q, want action", got)
	}
}

func TestMLPIsDeterministic(t *testing.T) {
	sizes := []int{4, 16, 1}
	first := onnxgraph.MLP("p", sizes, 7, "Tanh", "Tanh")
	if !bytes.Equal(first, onnxgraph.MLP("p", sizes, 7, "Tanh", "Tanh")) {
		t.Error("the same seed gave other bytes")
	}
	if bytes.Equal(first, onnxgraph.MLP("p", sizes, 8, "Tanh", "Tanh")) {
		t.Error("another seed gave the same bytes")
	}
}

func TestDenseRefusesLayersThatDoNotFit(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("three weights for a 2×2 layer did not panic")
		}
	}()
	onnxgraph.Dense("p", []onnxgraph.Layer{{In: 2, Out: 2, Weights: make([]float32, 3), Bias: make([]float32, 2)}})
}
