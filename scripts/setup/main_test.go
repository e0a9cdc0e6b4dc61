package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/ortlib/fetch"
)

// TestRunWithNamedLibrary runs with an npm on the PATH that leaves a mark when it is called.
func TestRunWithNamedLibrary(t *testing.T) {
	dir := t.TempDir()
	called := filepath.Join(dir, "called")
	npm := "#!/bin/sh\ntouch " + called + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	lib := filepath.Join(dir, "mine.so")
	t.Setenv(ortlib.EnvVar, lib)

	_, err := run(t.Context())
	if !errors.Is(err, ortlib.ErrMissing) || !strings.Contains(err.Error(), lib) {
		t.Errorf("run() with a missing named library: error %v, want ErrMissing naming %s", err, lib)
	}
	if err := os.WriteFile(lib, []byte("lib"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := run(t.Context()); err != nil || !strings.Contains(said, lib) {
		t.Errorf("run() = %q, %v; want a line naming %s", said, err, lib)
	}
	if _, err := os.Stat(called); err == nil {
		t.Error("npm was called although a library is named")
	}

	// The mark works: without the variable and without the library npm is asked.
	root := filepath.Join(dir, "tree")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module github.com/weftserve/weft\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	t.Setenv(ortlib.EnvVar, "")
	if _, err := run(t.Context()); !errors.Is(err, ortlib.ErrMissing) {
		t.Errorf("run() with a failing npm: error %v, want ErrMissing", err)
	}
	if _, err := fetch.NewPlace("x"); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(called); err != nil {
		t.Error("npm was not called although the library is missing")
	}
}
