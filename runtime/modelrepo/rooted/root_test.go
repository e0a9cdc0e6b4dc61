package rooted_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// TestStores: links lead into a store, as those of a model hub's cache do, and nowhere else.
func TestStores(t *testing.T) {
	tmp := t.TempDir()
	at := func(name string) string { return filepath.Join(tmp, name) }
	var errs error
	for name, content := range map[string]string{
		"hub/blobs/1": "one", "hub/snapshots/rev/README": "text", "secret/key": "key", "repository/m/own": "own",
	} {
		errs = errors.Join(errs, os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), []byte(content), 0o600))
	}
	for link, target := range map[string]string{
		"hub/snapshots/rev/model.onnx": "../../blobs/1",
		"hub/snapshots/rev/out":        "../../../secret/key",
		"link":                         "hub",
		"repository/m/1":               "../../hub/snapshots/rev",
		"repository/m/2":               at("hub/snapshots/rev"),
		"repository/m/file":            at("hub/blobs/1"),
		"repository/m/secret":          at("secret"),
		"repository/m/loop":            "loop",
		"repository/m/here":            "own",
	} {
		errs = errors.Join(errs, os.Symlink(target, at(link)))
	}
	if errs != nil {
		t.Fatal(errs)
	}
	for _, stores := range [][]string{nil, {at("nowhere"), at("link")}} {
		root, err := rooted.Open(at("repository"), stores)
		if err != nil {
			t.Fatal(err)
		}
		try(t, root, stores)
		_ = root.Close()
	}
}

// try looks at links from a root with stores, if there are any.
func try(t *testing.T, root *rooted.Root, stores []string) {
	t.Helper()
	read := func(root *rooted.Root, name string) string {
		f, err := root.Open(name)
		if err != nil {
			return ""
		}
		defer f.Close()
		text, _ := io.ReadAll(f)
		return string(text)
	}
	for name, want := range map[string]string{
		"m/1/model.onnx": "one", "m/2/model.onnx": "one", "m/2/README": "text", "m/file": "one",
		"m/1/out": "", "m/secret/key": "", "m/loop": "", "m/missing": "", "../hub/blobs/1": "",
	} {
		if stores == nil {
			want = ""
		}
		if got := read(root, name); got != want {
			t.Errorf("with stores %q %s has %q, want %q", stores, name, got, want)
		}
		if _, err := root.Stat(name); (err == nil) != (want != "") {
			t.Errorf("with stores %q the state of %s: %v", stores, name, err)
		}
	}
	if _, err := root.Open("m/1/SHA256SUMS"); errors.Is(err, fs.ErrNotExist) != (stores != nil) {
		t.Errorf("with stores %q a file that is missing there: %v", stores, err)
	}
	if got := read(root, "m/here"); got != "own" {
		t.Errorf("a link within the repository leads to %q", got)
	}
	m, err := root.OpenRoot("m/2")
	if (err == nil) != (stores != nil) {
		t.Fatalf("with stores %q: %v", stores, err)
	}
	if err != nil {
		return
	}
	defer m.Close()
	if got := read(m, "model.onnx"); got != "one" {
		t.Errorf("from a root in the store: %q", got)
	}
	if f, err := root.OpenFile("m/file", os.O_RDWR, 0); err == nil {
		_ = f.Close()
		t.Error("a file of a store was opened for writing")
	}
}

// TestFree: the folder of a test has room, and /proc has none to tell of.
func TestFree(t *testing.T) {
	for path, want := range map[string]bool{t.TempDir(): true, "/proc": false} {
		folder, err := os.Open(path)
		if err != nil {
			t.Skip(err)
		}
		bytes, known := rooted.Free(folder)
		_ = folder.Close()
		if runtime.GOOS == "linux" && (known != want || known && bytes <= 0) {
			t.Errorf("%s has %d bytes, %v", path, bytes, known)
		}
	}
}
