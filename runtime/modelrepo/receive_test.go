package modelrepo_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// receiver returns a repository with a model "m" that has version 1, and its path.
func receiver(t *testing.T) (*modelrepo.Repository, string) {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "m/1"), 0o755),
		os.WriteFile(filepath.Join(dir, "m/1", modelrepo.ModelFile), []byte("one"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := modelrepo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.AcceptUploads(1000, needs, joins)
	return r, dir
}

// needs is what a model of the tests needs.
func needs(model io.ReaderAt, size int64) ([]string, error) {
	text, err := io.ReadAll(io.NewSectionReader(model, 0, size))
	switch {
	case string(text) == "broken":
		return nil, errors.New("no model")
	case string(text) == "large":
		return []string{"weights.bin"}, nil
	}
	return nil, err
}

// joins is what the files of a pipeline of the tests are.
func joins(v modelrepo.Version) ([]byte, error) {
	if v.Pipeline.Steps[0].Name == "misfit" {
		return nil, config.Faults{{Message: "sizes differ"}}
	}
	return []byte(strings.Repeat("0", 64) + "  m/1/model.onnx\n"), nil
}

// anUpload returns an upload of a model whose files are alternately names and texts, and its content.
func anUpload(model string, version int64, files ...string) (catalog.Upload, io.Reader) {
	u, content := catalog.Upload{Model: model, Version: version}, &strings.Builder{}
	for i := 0; i < len(files); i += 2 {
		sum := sha256.Sum256([]byte(files[i+1]))
		u.Files = append(u.Files, catalog.UploadFile{Name: files[i], Bytes: int64(len(files[i+1])), SHA256: sum[:]})
		content.WriteString(files[i+1])
	}
	return u, strings.NewReader(content.String())
}

// reads is a reader that calls itself.
type reads func([]byte) (int, error)

func (r reads) Read(p []byte) (int, error) { return r(p) }

// TestReceivedVersionsNeedNotSettle: Watch lists them at once, whole, and also those of models that are new, while
// others must be quiet for an hour.
func TestReceivedVersionsNeedNotSettle(t *testing.T) {
	r, dir := receiver(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listings, ask := make(chan modelrepo.Listing), make(chan time.Duration, 1)
	ask <- 0
	go func() {
		defer close(listings)
		_ = r.Watch(ctx, modelrepo.WatchConfig{
			Ask: ask, Settle: time.Millisecond, SettleLater: time.Hour, // no interval: it looks only when it is asked
		},
			func(l modelrepo.Listing) {
				select {
				case listings <- l:
				case <-ctx.Done():
				}
			})
	}()
	<-listings
	if err := os.MkdirAll(filepath.Join(dir, "m/7"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"m", "fresh"} {
		u, content := anUpload(model, 9, modelrepo.ModelFile, "graph", "weights/a.bin", "numbers")
		if number, err := r.Receive(u, iotest.OneByteReader(content)); number != 9 || err != nil {
			t.Fatal(number, err)
		}
	}
	seen := map[string]bool{}
	for l := range listings {
		for _, m := range l.Models {
			if m.Err != nil {
				t.Errorf("%s was listed with %v", m.Name, m.Err)
			}
			for _, v := range m.Versions {
				if v.Number == 9 && v.Err != nil || v.Number == 7 && !errors.Is(v.Err, modelrepo.ErrCopying) {
					t.Errorf("%s/%d was listed with %v", m.Name, v.Number, v.Err)
				}
				seen[m.Name] = seen[m.Name] || v.Number == 9
			}
		}
		if seen["m"] && seen["fresh"] {
			break
		}
	}
	if !seen["m"] || !seen["fresh"] {
		t.Errorf("listed: %v", seen)
	}
	cancel()
	for range listings { // until Watch has ended
	}
}

// TestReceiveIsNotSeenHalf, takes the next number above those that are or were in use, and leaves nothing behind.
func TestReceiveIsNotSeenHalf(t *testing.T) {
	r, dir := receiver(t)
	u, content := anUpload("m", 0, modelrepo.ModelFile, "graph")
	u.Above = 4
	number, err := r.Receive(u, reads(func(p []byte) (int, error) {
		if m := r.Scan().Models[0]; len(m.Versions) != 1 || len(m.Notes) > 0 || m.Err != nil {
			t.Errorf("while it comes: %+v", m)
		}
		return content.Read(p)
	}))
	if number != 5 || err != nil {
		t.Fatal(number, err)
	}
	broken := errors.New("broken")
	u, content = anUpload("m", 0, modelrepo.ModelFile, "graph")
	_, err = r.Receive(u, io.MultiReader(io.LimitReader(content, 2), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("broken off: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "m"))
	if err != nil || len(entries) != 2 || entries[1].Name() != "5" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestUploadsThatAreRefused before anything is written.
func TestUploadsThatAreRefused(t *testing.T) {
	r, dir := receiver(t)
	for _, name := range []string{
		"", "/etc/passwd", "../1/model.onnx", "a/../b", "a//b", ".hidden", "a/.b", "SHA256SUMS", `a\b`, "a\nb", "a\xff",
		modelrepo.ModelFile, "1/2/3/4/5/6/7/8", strings.Repeat(strings.Repeat("a", 204)+"/", 5) + "a",
		strings.Repeat("a", 256), "SHA256SUMS/a", modelrepo.ModelFile + "/a",
	} {
		u, content := anUpload("m", 2, modelrepo.ModelFile, "graph", name, "more")
		e, is := errors.AsType[*tensor.FieldError](second(r.Receive(u, content)))
		if !is || e.Field != "start.files[1].name" {
			t.Errorf("file %q: %v", name, e)
		}
	}
	for text, wants := range map[string]string{
		"broken": "one that cannot: no model", "large": `the file "weights.bin" among them, where model.onnx has external data`,
	} {
		u, _ := anUpload("m", 2, modelrepo.ModelFile, text, "others.bin", "numbers")
		content := io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("the next file was read")))
		e, is := errors.AsType[*tensor.FieldError](second(r.Receive(u, content)))
		if !is || e.Field != "start.files" || !strings.Contains(e.Error(), wants) {
			t.Errorf("%s: %v", text, e)
		}
	}
	const step = "steps: [{name: %, model: m, version: 1, inputs: {x: x}}]\noutputs: {y: %.y}\n"
	misfit := strings.ReplaceAll(step, "%", "misfit")
	for text, wants := range map[string]string{
		misfit: "that cannot: sizes differ", "steps: 1": "pipeline.yaml:1:1: steps: expected a list",
		strings.Replace(misfit, ": 1", ": 2", 1):           "steps[0].version: model m has no such version;",
		strings.Replace(misfit, "model: m", "model: n", 1): "expected the name of one, found \"n\"",
	} {
		u, content := anUpload("m", 2, modelrepo.PipelineFile, text)
		e, is := errors.AsType[*tensor.FieldError](second(r.Receive(u, content)))
		if !is || e.Field != "start.files" || !strings.Contains(e.Error(), wants) {
			t.Errorf("%s: %v", text, e)
		}
	}
	u, content := anUpload("m", 2, modelrepo.PipelineFile, strings.ReplaceAll(step, "%", "s"), "more.bin", "more")
	if err := second(r.Receive(u, content)); err == nil || !strings.Contains(err.Error(), "alone") {
		t.Errorf("a pipeline with more files: %v", err)
	}
	u, content = anUpload("m", 2, modelrepo.ModelFile, "graph", "a/b/more.bin", "more", "a", "file")
	if err := second(r.Receive(u, content)); err == nil || !strings.Contains(err.Error(), "files[2].name") {
		t.Errorf("a file that is a folder: %v", err)
	}
	u, content = anUpload("m", 1<<53+1, modelrepo.ModelFile, "graph")
	if err := second(r.Receive(u, content)); err == nil || !strings.Contains(err.Error(), "at most 9007199254740992") {
		t.Errorf("a number after which few come: %v", err)
	}
	u, content = anUpload("m", 2, modelrepo.ModelFile, "graph", "a/more.bin", "more")
	u.Files[1].SHA256 = nil
	if err := second(r.Receive(u, content)); err == nil || !strings.Contains(err.Error(), "files[1].sha256") {
		t.Errorf("no digest: %v", err)
	}
	u, _ = anUpload("m", 2, modelrepo.ModelFile, "graph")
	err := second(r.Receive(u, strings.NewReader("graphs")))
	if err == nil || !strings.Contains(err.Error(), "no byte after") {
		t.Errorf("too much: %v", err)
	}
	for _, model := range []string{"", "a/b", "..", ".m", strings.Repeat("m", 129)} {
		u, content := anUpload(model, 2, modelrepo.ModelFile, "graph")
		if e, is := errors.AsType[*tensor.FieldError](second(r.Receive(u, content))); !is || e.Field != "start.model" {
			t.Errorf("model %q: %v", model, e)
		}
	}
	u, _ = anUpload("m", 1, modelrepo.ModelFile, "graph")
	unread := iotest.ErrReader(errors.New("it was read"))
	there, is := errors.AsType[*catalog.UploadError](second(r.Receive(u, unread)))
	if !is || there.Reason != catalog.VersionExists {
		t.Errorf("version 1: %v", there)
	}
	u.Version = 2
	for _, free := range []int64{64<<20 + 4, 64<<20 + 5} {
		r.HasFree(free)
		const wants = "the disk has 64.0 MiB free, and it needs 64.0 MiB, 64 of which stay free"
		if err := second(r.Receive(u, unread)); strings.Contains(err.Error(), wants) != (free == 64<<20+4) {
			t.Errorf("%d bytes free: %v", free, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	u, content = anUpload("m", 2, modelrepo.ModelFile, "graph")
	e, is := errors.AsType[*catalog.UploadError](second(r.Receive(u, content)))
	if !is || e.Reason != catalog.NotWritable {
		t.Errorf("no repository: %v", e)
	}
}

// TestUploadsAreBounded in number; those under way are not taken for what a killed server left.
func TestUploadsAreBounded(t *testing.T) {
	r, dir := receiver(t)
	u, content := anUpload("m", 0, modelrepo.ModelFile, "graph")
	_, err := r.Receive(u, reads(func(p []byte) (int, error) {
		if other, err := modelrepo.Open(dir); err == nil { // another server begins
			other.AcceptUploads(1000, needs, joins)
		}
		return content.Read(p)
	}))
	if err != nil {
		t.Error(err)
	}
	const mostAtOnce = 4
	var nested func(depth int) error
	nested = func(depth int) (err error) {
		u, content := anUpload("m", 0, modelrepo.ModelFile, "graph")
		below := false
		_, own := r.Receive(u, reads(func(p []byte) (int, error) {
			if !below {
				below, err = true, nested(depth+1)
			}
			return content.Read(p)
		}))
		if depth < mostAtOnce && own != nil {
			t.Errorf("upload %d: %v", depth, own)
		}
		if own != nil {
			return own
		}
		return err
	}
	e, is := errors.AsType[*catalog.UploadError](nested(0))
	if !is || e.Reason != catalog.TooManyUploads {
		t.Errorf("the fifth: %v", e)
	}
	if got := len(r.Scan().Models[0].Versions); got != 2+mostAtOnce {
		t.Errorf("%d versions", got)
	}
}

// TestUploadsWithoutLocks: where the file system has none, folders that are left over are told by their age.
func TestUploadsWithoutLocks(t *testing.T) {
	for err, works := range map[error]bool{
		syscall.ENOLCK: true, syscall.EOPNOTSUPP: true, syscall.ENOSYS: true, syscall.EIO: false,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			r, dir := receiver(t)
			modelrepo.FailLocks(t, err)
			for _, name := range []string{"new", "old"} {
				file := filepath.Join(dir, "m/.weft-upload-"+name+"/content/model.onnx")
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
				written := time.Now().Add(-2 * time.Hour)
				for path := file; name == "old" && len(path) > len(dir)+2; path = filepath.Dir(path) {
					if err := os.Chtimes(path, written, written); err != nil {
						t.Fatal(err)
					}
				}
			}
			u, content := anUpload("m", 0, modelrepo.ModelFile, "graph")
			if err := second(r.Receive(u, content)); (err == nil) != works {
				t.Errorf("the upload: %v", err)
			}
			_, old := os.Stat(filepath.Join(dir, "m/.weft-upload-old"))
			_, fresh := os.Stat(filepath.Join(dir, "m/.weft-upload-new"))
			if (old == nil) == works || fresh != nil {
				t.Errorf("what was written two hours ago: %v; just now: %v", old, fresh)
			}
		})
	}
}

func second(_ int64, err error) error { return err }

// TestUploadsBesideAModelConfigFile go to the repository, but for the models that the file lists.
func TestUploadsBesideAModelConfigFile(t *testing.T) {
	_, dir := receiver(t)
	file := filepath.Join(t.TempDir(), "models.config")
	text := `model_config_list { config { name: "listed" base_path: "` + t.TempDir() + `" } }`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ model, dir, refused string }{
		{"listed", dir, "a model config file says where it lies"},
		{"m", dir, ""},
		{"new", dir, ""},
		{"new", "", "the server has no repository, only a model config file"},
	} {
		r, err := modelrepo.OpenListed(file, strings.Fields(c.dir)...)
		if err != nil {
			t.Fatal(err)
		}
		r.AcceptUploads(1000, needs, nil)
		u, content := anUpload(c.model, 0, modelrepo.ModelFile, "graph")
		e, _ := errors.AsType[*catalog.UploadError](second(r.Receive(u, content)))
		if (e != nil) != (c.refused != "") || e != nil && !strings.Contains(e.Why, c.refused) {
			t.Errorf("%s in %q: %v", c.model, c.dir, e)
		}
	}
}
