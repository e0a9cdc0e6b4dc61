package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
)

const member = "package/bin/libonnxruntime.so.1"

const content = "the library"

// newInstaller returns an installer whose package holds the content as its member, all digests right, and
// a count of its downloads.
func newInstaller(t *testing.T) (in *installer, downloads *int) {
	t.Helper()
	// The data behind the library does not compress, so that reading the library stops short of the file's end.
	trailing := make([]byte, 1<<16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(trailing)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, file := range []struct{ name, content string }{
		{"package/package.json", "{}"},
		{member, content},
		{"package/README.md", string(trailing)},
	} {
		header := &tar.Header{Name: file.name, Size: int64(len(file.content)), Mode: 0o644}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	libSum, packSum := sha256.Sum256([]byte(content)), sha512.Sum512(packed.Bytes())
	downloads = new(int)
	in = &installer{
		lib:           library{member: member, sha256: hex.EncodeToString(libSum[:])},
		tarballSHA512: hex.EncodeToString(packSum[:]),
		path:          filepath.Join(t.TempDir(), "1.0", "lib", "libonnxruntime.so"),
		fetch: func(_ context.Context, dir string) (string, error) {
			*downloads++
			path := filepath.Join(dir, "pack.tgz")
			return path, os.WriteFile(path, packed.Bytes(), 0o600)
		},
	}
	return in, downloads
}

func TestInstallTwiceDownloadsOnce(t *testing.T) {
	in, downloads := newInstaller(t)
	for range 2 {
		if err := in.install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if *downloads != 1 {
		t.Errorf("downloads = %d, want 1", *downloads)
	}
	wantOnly(t, in.path)
}

func TestInstallReplacesADamagedLibrary(t *testing.T) {
	in, downloads := newInstaller(t)
	if err := os.MkdirAll(filepath.Dir(in.path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in.path, []byte("cut sho"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := in.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *downloads != 1 {
		t.Errorf("downloads = %d, want 1", *downloads)
	}
	wantOnly(t, in.path)
}

func TestInstallRefusesWrongDigests(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*installer)
		want  string
	}{
		{"package", func(in *installer) { in.tarballSHA512 = strings.Repeat("0", 128) }, "SHA-512"},
		{"library", func(in *installer) { in.lib.sha256 = strings.Repeat("0", 64) }, "SHA-256"},
		{"no such member", func(in *installer) { in.lib.member = "package/none" }, "holds no package/none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, _ := newInstaller(t)
			tt.spoil(in)
			err := in.install(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("install() error %v, want one with %q", err, tt.want)
			}
			if _, err := os.Stat(in.path); err == nil {
				t.Errorf("%s was put in place", in.path)
			}
		})
	}
}

func TestInstallWithoutNetwork(t *testing.T) {
	in, _ := newInstaller(t)
	in.fetch = func(context.Context, string) (string, error) {
		return "", errors.New("npm: getaddrinfo ENOTFOUND")
	}
	err := in.install(t.Context())
	if !errors.Is(err, ortlib.ErrMissing) {
		t.Fatalf("install() error %v, want ErrMissing", err)
	}
	for _, part := range []string{in.path, "ENOTFOUND", "make setup", ortlib.EnvVar} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %s", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
}

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
	if _, err := os.Stat(called); err != nil && pinned[runtime.GOOS+"/"+runtime.GOARCH] != (library{}) {
		t.Error("npm was not called although the library is missing")
	}
}

func TestNPMReason(t *testing.T) {
	tests := []struct{ stderr, want string }{
		{
			"npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error network request to x failed, " +
				"reason: getaddrinfo ENOTFOUND host.invalid\nnpm error network This is a problem\n",
			"getaddrinfo ENOTFOUND host.invalid",
		},
		{"npm error code E404\nnpm error 404 Not Found\n", "E404"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := npmReason(tt.stderr); got != tt.want {
			t.Errorf("npmReason(%q) = %q, want %q", tt.stderr, got, tt.want)
		}
	}
}

// wantOnly checks that the library has the content and that nothing else was left next to it.
func wantOnly(t *testing.T, path string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		t.Errorf("library holds %q (%v), want %q", got, err, content)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v (%v), want the library alone", entries, err)
	}
}
