package ortlib

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const weftModule, otherModule = "module github.com/weftserve/weft\n\ngo 1.26.0\n", "module example.com/other\n"
	libInTree := strings.TrimPrefix(TreePath("/"), "/")
	tests := []struct {
		name    string
		files   map[string]string // path below the test's folder → content
		exe, wd string
		want    string // path below the test's folder; empty: ErrMissing
	}{
		{
			name:  "source tree around the working directory",
			files: map[string]string{"src/go.mod": weftModule, "src/" + libInTree: "lib", "src/runtime/ort/x.go": ""},
			exe:   "tmp/ort.test", wd: "src/runtime/ort",
			want: "src/" + libInTree,
		},
		{
			name: "a nested module does not hide the tree",
			files: map[string]string{
				"src/go.mod": weftModule, "src/tools/go.mod": otherModule, "src/" + libInTree: "lib",
			},
			exe: "tmp/x", wd: "src/tools",
			want: "src/" + libInTree,
		},
		{
			name:  "source tree around the executable",
			files: map[string]string{"src/go.mod": weftModule, "src/" + libInTree: "lib", "src/bin/weft": ""},
			exe:   "src/bin/weft", wd: "elsewhere",
			want: "src/" + libInTree,
		},
		{
			name: "beside the executable wins over the tree around the working directory",
			files: map[string]string{
				"opt/weft": "", "opt/" + FileName(): "lib",
				"src/go.mod": weftModule, "src/" + libInTree: "other",
			},
			exe: "opt/weft", wd: "src",
			want: "opt/" + FileName(),
		},
		{
			name:  "lib folder of an installation",
			files: map[string]string{"opt/bin/weft": "", "opt/lib/" + FileName(): "lib"},
			exe:   "opt/bin/weft", wd: "elsewhere",
			want: "opt/lib/" + FileName(),
		},
		{
			name: "the user's folder is the last",
			files: map[string]string{
				"home/" + FileName(): "lib", "src/go.mod": weftModule, "src/" + libInTree: "other",
			},
			exe: "home/go/bin/weft", wd: "src",
			want: "src/" + libInTree,
		},
		{
			name:  "the user's folder",
			files: map[string]string{"home/" + FileName(): "lib"},
			exe:   "home/go/bin/weft", wd: "elsewhere",
			want: "home/" + FileName(),
		},
		{
			name:  "another module's tree is not ours",
			files: map[string]string{"src/go.mod": otherModule, "src/" + libInTree: "lib"},
			exe:   "tmp/x", wd: "src",
		},
		{
			name:  "tree without the library",
			files: map[string]string{"src/go.mod": weftModule},
			exe:   "tmp/x", wd: "src",
		},
		{
			name:  "a folder of that name is not a library",
			files: map[string]string{"src/go.mod": weftModule, "src/" + libInTree + "/x": ""},
			exe:   "tmp/x", wd: "src",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range tt.files {
				write(t, filepath.Join(root, path), content)
			}
			got, err := find(filepath.Join(root, tt.exe), filepath.Join(root, tt.wd),
				filepath.Join(root, "home", FileName()))
			if tt.want == "" {
				if !errors.Is(err, ErrMissing) {
					t.Fatalf("find() = %q, %v; want ErrMissing", got, err)
				}
				wantMendingSentence(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(root, tt.want); got != want {
				t.Errorf("find() = %q, want %q", got, want)
			}
		})
	}
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
