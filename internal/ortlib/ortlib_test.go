package ortlib

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestFind has trees of files, LIB among them, and says which library is found from an executable and a working
// directory.
func TestFind(t *testing.T) {
	inTree := strings.TrimPrefix(TreePath("/"), "/")
	modules := map[string]string{
		"weft": "module github.com/weftserve/weft\n\ngo 1.26.0\n", "other": "module example.com/other\n",
	}
	datadriven.RunTest(t, "testdata/find.txt", func(t *testing.T, d *datadriven.TestData) string {
		root, exe, wd := t.TempDir(), "tmp/x", "elsewhere"
		d.MaybeScanArgs(t, "exe", &exe)
		d.MaybeScanArgs(t, "wd", &wd)
		for file := range strings.FieldsSeq(d.Input) {
			path, content, _ := strings.Cut(file, "=")
			path = strings.NewReplacer("TREE", inTree, "LIB", FileName()).Replace(path)
			write(t, filepath.Join(root, path), modules[content])
		}
		got, err := find(filepath.Join(root, exe), filepath.Join(root, wd), filepath.Join(root, "home", FileName()))
		if errors.Is(err, ErrMissing) {
			wantMendingSentence(t, err)
			return "missing\n"
		}
		if err != nil {
			t.Fatal(err)
		}
		got = strings.TrimPrefix(got, root+"/")
		return strings.NewReplacer(inTree, "TREE", FileName(), "LIB").Replace(got) + "\n"
	})
}

func TestFindObeysTheEnvironment(t *testing.T) {
	lib := filepath.Join(t.TempDir(), "mine.so")
	t.Setenv(EnvVar, lib)

	_, err := Find()
	if !errors.Is(err, ErrMissing) {
		t.Fatalf("Find() with %s naming no file: error %v, want ErrMissing", EnvVar, err)
	}
	wantMendingSentence(t, err)
	if !strings.Contains(err.Error(), lib) {
		t.Errorf("error %q does not name %s", err, lib)
	}

	write(t, lib, "lib")
	got, err := Find()
	if err != nil || got != lib {
		t.Errorf("Find() = %q, %v; want %q", got, err, lib)
	}
}

func TestUserPath(t *testing.T) {
	below := filepath.Join("weft", "onnxruntime", Version, "lib", FileName())
	for _, tt := range []struct{ data, home, want string }{
		{"/data", "/home/me", filepath.Join("/data", below)},
		{"", "/home/me", filepath.Join("/home/me", dataFolder(), below)},
		{"relative", "/home/me", filepath.Join("/home/me", dataFolder(), below)},
		{"", "", ""},
	} {
		t.Setenv("XDG_DATA_HOME", tt.data)
		t.Setenv("HOME", tt.home)
		if got, err := UserPath(); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("UserPath() with XDG_DATA_HOME=%q, HOME=%q = %q, %v; want %q", tt.data, tt.home, got, err, tt.want)
		}
	}
}

func dataFolder() string {
	if runtime.GOOS == "darwin" {
		return "Library/Application Support"
	}
	return ".local/share"
}

func TestNamedMakesAbsolute(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mine.so"), "lib")
	t.Chdir(dir)
	got, err := Named("mine.so")
	if err != nil || !filepath.IsAbs(got) {
		t.Errorf("Named(relative) = %q, %v; want an absolute path", got, err)
	}
}

// wantMendingSentence checks that the error is one line and says which command mends it.
func wantMendingSentence(t *testing.T, err error) {
	t.Helper()
	msg := err.Error()
	for _, part := range []string{"weft setup", EnvVar, Version} {
		if !strings.Contains(msg, part) {
			t.Errorf("error %q does not mention %s", msg, part)
		}
	}
	if strings.Contains(msg, "\n") {
		t.Errorf("error has more than one line: %q", msg)
	}
}

// TestOwnTree: a tree that somebody else has put around the working directory is not trusted with a library.
func TestOwnTree(t *testing.T) {
	root := t.TempDir()
	sub := filepath.Join(root, "sub")
	if ownTree(sub) {
		t.Error("a directory without a tree")
	}
	write(t, filepath.Join(root, "go.mod"), "module github.com/weftserve/weft\n")
	if ownTree(sub) {
		t.Error("a tree without a library")
	}
	write(t, TreePath(root), "")
	if !ownTree(sub) {
		t.Error("the user's own tree is not trusted")
	}
	for _, path := range []string{filepath.Join(root, "go.mod"), TreePath(root)} {
		if err := os.Chown(path, 1, -1); err != nil {
			t.Skipf("only root can give files to another user: %v", err)
		}
		if ownTree(sub) {
			t.Errorf("%s is another user's", path)
		}
		if err := os.Chown(path, os.Geteuid(), -1); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
