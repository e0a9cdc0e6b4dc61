package ort_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// sourceOf reads a repository's m/1, and returns what a session is opened from.
func sourceOf(t *testing.T, repository string) ort.Source {
	t.Helper()
	f, err := modelfile.Read(context.Background(), repository, filepath.Join(repository, "m", "1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	src := ort.Source{Path: "m", File: f.Copy(), Model: ort.Extent{Offset: f.Opened.Offset, Size: f.Opened.Size}}
	for _, e := range f.External() {
		extent := ort.Extent{Offset: e.Offset, Size: e.Size}
		src.External = append(src.External, ort.ExternalFile{Name: e.Name, Extent: extent})
	}
	return src
}

// A session of a private copy answers as one of the files, whatever names they have and wherever in the graph they are
// named, and needs the files no more.
func TestOpenSource(t *testing.T) {
	initialise(t)
	branch := func(file string) *onnxgraph.Graph {
		g := onnxgraph.New("b").ExternalInit("b", onnxgraph.Float, []int64{2}, file, 4, 8)
		return g.Node("Mul", []string{"sum", "b"}, []string{"z"}).AnyOutput("z")
	}
	for _, name := range []string{"w.bin", "./w.bin", "deep/w.bin", "5", "deep/../w.bin"} {
		for _, nested := range []bool{false, true} {
			g := onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 2).Output("y", onnxgraph.Float, "N", 2)
			g.ExternalInit("w", onnxgraph.Float, []int64{2}, name, 0, 8)
			out := "y"
			if nested {
				out = "sum"
			}
			g.Node("Add", []string{"x", "w"}, []string{out})
			if nested {
				g.Node("ReduceMax", []string{"x"}, []string{"max"}, onnxgraph.IntAttr("keepdims", 0))
				g.Node("Cast", []string{"max"}, []string{"c"}, onnxgraph.IntAttr("to", int64(onnxgraph.Bool)))
				g.Node("If", []string{"c"}, []string{"y"}, onnxgraph.GraphAttr("then_branch", branch(name)),
					onnxgraph.GraphAttr("else_branch", branch("w.bin")))
			}
			repository := t.TempDir()
			dir := filepath.Join(repository, "m", "1")
			if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o700); err != nil {
				t.Fatal(err)
			}
			weights := onnxgraph.FloatBytes([]float32{1, 2, 3})
			for file, content := range map[string][]byte{
				"model.onnx": g.Marshal(), "w.bin": weights, "deep/w.bin": weights, "5": weights,
			} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in := floats(tensor.Shape{1, 2}, 10, 20)
			want := runOnce(t, openFile(t, filepath.Join(dir, "model.onnx")), in)
			src := sourceOf(t, repository)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			s, err := ort.OpenSource(src, ort.Options{})
			if err != nil {
				t.Errorf("%s, nested %v: %v", name, nested, err)
				continue
			}
			if diff := cmp.Diff(want, runOnce(t, s, in)); diff != "" {
				t.Errorf("%s, nested %v (-want +got)\n%s", name, nested, diff)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := src.File.Stat(); err == nil {
				t.Error("a closed session has its file still")
			}
		}
	}
}

// External data that a copy lacks is not looked for elsewhere: not in the working directory either.
func TestSourceLooksNowhere(t *testing.T) {
	initialise(t)
	repository := t.TempDir()
	dir := filepath.Join(repository, "m", "1")
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 2).Output("y", onnxgraph.Float, "N", 2)
	g.ExternalInit("w", onnxgraph.Float, []int64{2}, "w.bin", 0, 8).Node("Add", []string{"x", "w"}, []string{"y"})
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for file, content := range map[string][]byte{
		"model.onnx": g.Marshal(), "w.bin": onnxgraph.FloatBytes([]float32{1, 2}),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src := sourceOf(t, repository)
	src.External = nil
	if s, err := ort.OpenSource(src, ort.Options{}); err == nil {
		t.Error("a file of the working directory was read")
		_ = s.Close()
	}
	src = sourceOf(t, repository)
	src.External[0].Size = 1 << 40
	if _, err := ort.OpenSource(src, ort.Options{}); err == nil || !strings.Contains(err.Error(), "copy has") {
		t.Errorf("beyond the copy: %v", err)
	}
}
