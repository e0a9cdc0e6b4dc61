package ort_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// sourceOf reads a repository's m/1, and returns what a session is opened from.
func sourceOf(t *testing.T, repository string) ort.Source {
	t.Helper()
	f, err := modelfile.Read(context.Background(), modelfile.Place{
		Repository: repository, Dir: filepath.Join(repository, "m", "1"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	src := ort.Source{Path: "m", File: f.Copy(), Model: ort.Extent{Offset: f.Opened.Offset, Size: f.Opened.Size}}
	for _, e := range f.External() {
		extent := ort.Extent{Offset: e.Offset, Size: e.Size}
		src.External = append(src.External, ort.ExternalFile{Name: e.Name, Extent: extent})
	}
	for _, l := range f.Large {
		extent := ort.Extent{Offset: l.Offset, Size: l.Size}
		src.Large = append(src.Large, ort.LargeTensor{Name: l.Name, DType: l.DType, Shape: l.Shape, Extent: extent})
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
			same(t, want, runOnce(t, s, in), "%s, nested %v", name, nested)
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

// TestLargeTensors: an initializer that is too large for a message is handed over by itself. WEFT_LARGE_TENSOR=bytes
// makes it really large; else the test says that it is.
func TestLargeTensors(t *testing.T) {
	initialise(t)
	size, really := int64(1<<20), false
	if asked := os.Getenv("WEFT_LARGE_TENSOR"); asked != "" {
		var err error
		if size, err = strconv.ParseInt(asked, 10, 64); err != nil {
			t.Fatal(err)
		}
		really = true
	}
	g := onnxgraph.New("g").Input("i", onnxgraph.Int64, "N").Output("y", onnxgraph.Uint8, "N")
	g.ExternalInit("w", onnxgraph.Uint8, []int64{size}, "w.bin", 8, size)
	g.ExternalInit("v", onnxgraph.Uint8, []int64{1}, "v.bin", 0, 1).
		Node("Gather", []string{"w", "i"}, []string{"of"}).Node("Max", []string{"of", "v"}, []string{"y"})
	repository := t.TempDir()
	dir := filepath.Join(repository, "m", "1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"model.onnx": g.Marshal(), "v.bin": {2}} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := os.Create(filepath.Join(dir, "w.bin"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.WriteAt([]byte{42}, 8+size-1) // the rest is a hole
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	src := sourceOf(t, repository)
	if !really {
		file := &src.External[1]
		large := ort.Extent{Offset: file.Offset + 8, Size: size}
		src.Large = []ort.LargeTensor{{Name: "w", DType: int32(onnxgraph.Uint8), Shape: tensor.Shape{size}, Extent: large}}
		file.Size = 0 // where it would be found otherwise
	}
	s, err := ort.OpenSource(src, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if y := runOnce(t, s, int64s(tensor.Shape{2}, 0, size-1))[0]; !bytes.Equal(y.Data, []byte{2, 42}) {
		t.Errorf("answered with %v", y)
	}
}
