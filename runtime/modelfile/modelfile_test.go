package modelfile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelfile"
)

// graph returns a model that adds the tensors of the named files, of two elements each, to its input.
func graph(names ...string) []byte {
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 2)
	value := "x"
	for i, name := range names {
		w, next := fmt.Sprintf("w%d", i), fmt.Sprintf("y%d", i)
		g.ExternalInit(w, onnxgraph.Float, []int64{2}, name, 0, 8).Node("Add", []string{value, w}, []string{next})
		value = next
	}
	return g.Node("Neg", []string{value}, []string{"y"}).Output("y", onnxgraph.Float, "N", 2).Marshal()
}

// put writes a repository: files by path, and symbolic links by "-> target". It returns the repository and m/1 in it.
func put(t *testing.T, files map[string][]byte) (repository, dir string) {
	t.Helper()
	repository = t.TempDir()
	for name, content := range files {
		path := filepath.Join(repository, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if target, link := strings.CutPrefix(string(content), "-> "); link {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return repository, filepath.Join(repository, "m", "1")
}

func read(t *testing.T, files map[string][]byte) (*modelfile.Files, error) {
	t.Helper()
	repository, dir := put(t, files)
	f, err := modelfile.Read(context.Background(), placeOf(repository, dir), nil)
	if err == nil {
		t.Cleanup(func() { _ = f.Close() })
	}
	return f, err
}

// content returns a file of a copy.
func content(t *testing.T, f *modelfile.Files, file modelfile.File) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f.Copy(), file.Offset, file.Size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRead(t *testing.T) {
	one, two := onnxgraph.FloatBytes([]float32{1, 2}), onnxgraph.FloatBytes([]float32{3, 4})
	model := graph("w.bin", "deep/w.bin", "w.bin")
	f, err := read(t, map[string][]byte{
		"m/1/model.onnx": model, "m/1/w.bin": one, "blobs/two": two, "m/1/deep/w.bin": []byte("-> ../../../blobs/two"),
		"m/1/README": []byte("not the model's"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name    string
		content []byte
	}{{"model.onnx", model}, {"deep/w.bin", two}, {"w.bin", one}}
	if len(f.List) != len(want) || f.Opened != f.List[0] {
		t.Fatalf("%+v, opened %+v", f.List, f.Opened)
	}
	var sums strings.Builder
	for i, w := range want {
		file := f.List[i]
		if got := content(t, f, file); file.Name != w.name || !bytes.Equal(got, w.content) ||
			file.SHA256 != sha256.Sum256(w.content) {
			t.Errorf("file %d: %+v holds %q", i, file, got)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(w.content), w.name)
	}
	if got := string(f.Sums()); got != sums.String() {
		t.Errorf("sums: got\n%swant\n%s", got, sums.String())
	}
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(sums.String()))); f.Digest() != want {
		t.Errorf("digest %s, want %s", f.Digest(), want)
	}
}

func placeOf(repository, dir string) modelfile.Place {
	return modelfile.Place{Repository: repository, Dir: dir}
}

// TestReadTellsHowFarItIs: after each part, of all bytes.
func TestReadTellsHowFarItIs(t *testing.T) {
	model := graph("w.bin")
	weights := make([]byte, 100_000)
	repository, dir := put(t, map[string][]byte{"m/1/model.onnx": model, "m/1/w.bin": weights})
	var last, times int64
	all := int64(len(model) + len(weights))
	f, err := modelfile.Read(context.Background(), placeOf(repository, dir), func(done, of int64) {
		if done < last || of != all {
			t.Errorf("%d of %d after %d, of %d bytes", done, of, last, all)
		}
		last = done
		times++
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil || last != all || times < 4 {
		t.Errorf("%d of %d bytes, told %d times; %v", last, all, times, err)
	}
}

// Nobody can write to a copy, or resize it.
func TestCopyIsSealed(t *testing.T) {
	f, err := read(t, map[string][]byte{"m/1/model.onnx": graph()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Copy().WriteAt([]byte{1}, 0); err == nil {
		t.Error("the copy was written to")
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Copy().Fd()), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer again.Close()
	if _, err := again.WriteAt([]byte{1}, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("writing to the copy: %v", err)
	}
	if err := again.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("cutting the copy short: %v", err)
	}
}

// Initializers that are too large for a message are listed, with their places in the copy: also one that reaches to the
// end of its file, and does not say how long it is.
func TestLargeInitializers(t *testing.T) {
	modelfile.EmbedAtMost(t, 8)
	model := onnxgraph.New("g").ExternalInit("small", onnxgraph.Float, []int64{2}, "w.bin", 0, 8).
		ExternalInit("large", onnxgraph.Float, []int64{2, 2}, "./w.bin", 8, 16).Marshal()
	for name, c := range map[string]struct {
		model []byte
		size  int64
		want  []string
		fault string
	}{
		"said": {model, 24, []string{"large 1 [2 2] 8 16 [8 9]"}, ""},
		"not said": {bytes.ReplaceAll(model, []byte("length"), []byte("lengtx")), 24, []string{
			"small 1 [2] 0 24 [0 1]", "large 1 [2 2] 8 16 [8 9]",
		}, ""},
		"beyond": {model, 23, nil, `its tensor "large" lies beyond the 23 bytes of w.bin`},
	} {
		content := make([]byte, c.size)
		for i := range content {
			content[i] = byte(i)
		}
		repository, dir := put(t, map[string][]byte{"m/1/model.onnx": c.model, "m/1/w.bin": content})
		f, err := modelfile.Read(context.Background(), placeOf(repository, dir), nil)
		if err != nil {
			if c.fault == "" || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var got []string
		for _, l := range f.Large {
			var first [2]byte
			_, _ = f.Copy().ReadAt(first[:], l.Offset)
			got = append(got, fmt.Sprint(l.Name, " ", l.DType, l.Shape, l.Offset-f.List[1].Offset, l.Size, first))
		}
		if !slices.Equal(got, c.want) || c.fault != "" {
			t.Errorf("%s: %q", name, got)
		}
		_ = f.Close()
	}
}

// A large copy lies on disk if it can, else in memory.
func TestLargeCopy(t *testing.T) {
	directories := []string{t.TempDir(), "/nowhere"}
	if inMemory, err := os.MkdirTemp("/dev/shm", ""); err == nil { //nolint:usetesting // it is to be in memory
		t.Cleanup(func() { _ = os.Remove(inMemory) })
		directories = append(directories, inMemory)
	}
	for _, temporary := range directories {
		repository, dir := put(t, map[string][]byte{"m/1/model.onnx": graph("w.bin"), "m/1/w.bin": nil})
		weights := filepath.Join(dir, "w.bin")
		if err := os.Truncate(weights, 65<<20); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", temporary)
		f, err := modelfile.Read(context.Background(), placeOf(repository, dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Copy().Fd()))
		if onDisk := strings.HasPrefix(link, temporary); onDisk != (temporary != "/nowhere") {
			t.Errorf("with TMPDIR=%s the copy is %s", temporary, link)
		}
		if f.List[1].Size != 65<<20 || f.List[1].SHA256 == f.List[0].SHA256 {
			t.Errorf("%+v", f.List)
		}
		if _, err := f.Copy().WriteAt([]byte{1}, 0); err == nil {
			t.Error("the copy was written to")
		}
		if names, err := os.ReadDir(temporary); err == nil && len(names) > 0 {
			t.Errorf("the copy has a name: %v", names)
		}
		_ = f.Close()
	}
}

func TestRefused(t *testing.T) {
	weights := onnxgraph.FloatBytes([]float32{1, 2})
	outside := weftest.WriteFile(t, t.TempDir(), "secret", weights)
	for name, c := range map[string]struct {
		names []string
		files map[string][]byte
		want  string
	}{
		"missing":          {[]string{"w.bin"}, nil, "m/1/w.bin"},
		"above":            {[]string{"../w.bin"}, map[string][]byte{"m/w.bin": weights}, `"../w.bin", outside`},
		"above in between": {[]string{"deep/../../w.bin"}, map[string][]byte{"m/w.bin": weights}, "outside"},
		"absolute":         {[]string{outside}, nil, "outside"},
		"no name":          {[]string{""}, nil, "outside"},
		"itself":           {[]string{"model.onnx"}, nil, "the model file itself"},
		"a directory":      {[]string{"deep"}, map[string][]byte{"m/1/deep/w.bin": weights}, "not a regular file"},
		"a link that leads out": {
			[]string{"w.bin"}, map[string][]byte{"m/1/w.bin": []byte("-> " + outside)}, "within the repository",
		},
		"a directory that leads out": {
			[]string{"deep/secret"},
			map[string][]byte{"m/1/deep": []byte("-> " + filepath.Dir(outside))},
			"within the repository",
		},
		"a link to nothing": {[]string{"w.bin"}, map[string][]byte{"m/1/w.bin": []byte("-> nothing")}, "m/1/w.bin"},
	} {
		files := map[string][]byte{"m/1/model.onnx": graph(c.names...)}
		maps.Copy(files, c.files)
		if f, err := read(t, files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v %v, want an error with %q", name, f, err, c.want)
		}
	}
	repository, dir := put(t, map[string][]byte{"m/1/w.bin": weights})
	if err := unix.Mkfifo(filepath.Join(dir, "model.onnx"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := modelfile.Read(context.Background(), placeOf(repository, dir), nil); err == nil {
		t.Error("a pipe was read")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	repository, dir = put(t, map[string][]byte{"m/1/model.onnx": graph()})
	if _, err := modelfile.Read(ctx, placeOf(repository, dir), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// sha256sum reads what Weft writes, and Weft what sha256sum writes.
func TestSums(t *testing.T) {
	ctx := context.Background()
	weights := onnxgraph.FloatBytes([]float32{1, 2})
	repository, dir := put(t, map[string][]byte{
		"m/1/model.onnx": graph("w.bin", `a\b`, " c"), "m/1/w.bin": weights, `m/1/a\b`: weights, "m/1/ c": weights,
	})
	if _, err := modelfile.Load(ctx, placeOf(repository, dir), true, nil); !errors.Is(err, modelfile.ErrDigest) ||
		!strings.Contains(err.Error(), "`weft seal "+dir+"`") {
		t.Errorf("without %s: %v", modelfile.SumsName, err)
	}
	load := func() error {
		f, err := modelfile.Load(ctx, placeOf(repository, dir), true, nil)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	f, err := modelfile.Load(ctx, placeOf(repository, dir), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := modelfile.WriteSums(dir, f.Sums()); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Error(err)
	}
	sums := func(command string) []byte {
		c := exec.CommandContext(ctx, "sh", "-c", command)
		c.Dir = dir
		out, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		return out
	}
	sums("sha256sum -c --strict SHA256SUMS")
	theirs := sums(`sha256sum -b ./* | grep -v SHA256SUMS`)
	if err := os.WriteFile(filepath.Join(dir, modelfile.SumsName), theirs, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Error(err)
	}
	for want, text := range map[string]string{
		": its digest is not confirmed: it has": strings.ReplaceAll(string(theirs), fmt.Sprintf("%x",
			sha256.Sum256(weights)), strings.Repeat("0", 64)),
		"does not list it": strings.Split(string(theirs), "\n")[0] + "\n",
		"line 1":           "no digest\n",
		"line 2":           string(theirs[:bytes.IndexByte(theirs, '\n')+1]) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, modelfile.SumsName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q: %v", want, err)
		}
	}
}

// Tensors that ONNX Runtime would look for on disk are inside the model that it is given; others are not.
func TestEmbedded(t *testing.T) {
	branch := func() *onnxgraph.Graph {
		g := onnxgraph.New("b").ExternalInit("b", onnxgraph.Float, []int64{2}, "b.bin", 4, 8)
		return g.Node("Add", []string{"x", "b"}, []string{"z"}).AnyOutput("z")
	}
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 2).Input("c", onnxgraph.Bool).AnyOutput("y")
	g.ExternalInit("w", onnxgraph.Float, []int64{2}, "./w.bin", 0, 8).Node("Add", []string{"x", "w"}, []string{"sum"})
	g.Node("If", []string{"c"}, []string{"y"}, onnxgraph.GraphAttr("then_branch", branch()),
		onnxgraph.GraphAttr("else_branch", branch()))
	w, b := onnxgraph.FloatBytes([]float32{1, 2}), onnxgraph.FloatBytes([]float32{3, 4, 5})
	files := map[string][]byte{"m/1/model.onnx": g.Marshal(), "m/1/w.bin": w, "m/1/b.bin": b}
	f, err := read(t, files)
	if err != nil {
		t.Fatal(err)
	}
	opened := content(t, f, f.Opened)
	if bytes.Count(opened, b[4:]) != 2 || bytes.Contains(opened, w) || bytes.Contains(opened, []byte("./w.bin")) ||
		!bytes.Contains(opened, []byte("w.bin")) || bytes.Contains(opened, []byte("b.bin")) {
		t.Errorf("%q", opened)
	}
	if got := content(t, f, f.List[0]); !bytes.Equal(got, files["m/1/model.onnx"]) {
		t.Error("the digest is of another model")
	}
	files["m/1/b.bin"] = b[:8]
	if _, err := read(t, files); err == nil || !strings.Contains(err.Error(), `"b" lies beyond the 8 bytes of b.bin`) {
		t.Errorf("a file cut short: %v", err)
	}
}

// TestMistaken: a file of another format is told by its beginning; one that is cut short is left to the engine, and is
// not to be stored. One with a name that Slim does not read is.
func TestMistaken(t *testing.T) {
	model := graph()
	named := append(slices.Clip(model), 0x12, 0x80, 0x80, 0x80, 0x01) // producer_name, of 2 MiB
	large := string(append(named, make([]byte, 2<<20)...))
	for content, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n": "a pointer of Git LFS in the place of the model; fetch",
		"PK\x03\x04 and more":                             "a zip archive",
		"\x20\x00\x00\x00\x00\x00\x00\x00{\"weight\": 1}": "weights without a graph",
		"<html></html>":                                   "a page of HTML",
		"\x1f\x8b\x08":                                    "compressed by gzip",
		string(model[:len(model)-3]):                      "",
		string(model):                                     "",
		large:                                             "",
		"something that nobody knows...":                  "",
		"":                                                "",
	} {
		f, err := read(t, map[string][]byte{"m/1/model.onnx": []byte(content)})
		if (err != nil) != (want != "") || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v %v, want %q", content, f, err, want)
		}
		_, unfit := modelfile.Needs(strings.NewReader(content), int64(len(content)))
		whole := content == string(model) || content == large
		if (unfit == nil) != whole || !strings.Contains(fmt.Sprint(unfit), want) {
			t.Errorf("%.20q: to be stored: %v, want %q", content, unfit, want)
		}
	}
}
