// Package ortlib says which ONNX Runtime shared library this build of Weft uses and where it lies.
//
// It only names and finds the file; runtime/ort loads it and package fetch fetches it.
package ortlib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Version is the pinned ONNX Runtime release.
const Version = "1.30.0"

// EnvVar names a library to use instead of the pinned one.
const EnvVar = "WEFT_ONNXRUNTIME_LIB"

// ErrMissing is wrapped by every error that says there is no library to load.
var ErrMissing = errors.New("ONNX Runtime library missing")

// FileName is the library's name in the pinned folder and next to an installed binary.
func FileName() string {
	if runtime.GOOS == "darwin" {
		return "libonnxruntime.dylib"
	}
	return "libonnxruntime.so"
}

// TreePath is where `make setup` puts the pinned library in the source tree at root.
func TreePath(root string) string {
	return filepath.Join(root, ".weft", pinnedPath())
}

// Find returns the absolute path of the library to load. It looks in this order:
//
//   - the path that WEFT_ONNXRUNTIME_LIB names, which must be a file;
//   - beside the running executable, in ../lib, and in ../lib/weft, where the wheel of Python has it;
//   - the source tree around the executable, where `make setup` puts it;
//   - the source tree around the working directory: in tests, or if tree and library belong to the user;
//   - where `weft setup` puts it for the user.
//
// The error is one sentence that names the missing file and the remedy. It wraps ErrMissing.
func Find() (string, error) {
	if path := os.Getenv(EnvVar); path != "" {
		return Named(path)
	}
	exe, err := os.Executable()
	if err != nil {
		exe = ""
	} else if resolved, err := filepath.EvalSymlinks(exe); err == nil {
		// A link in /usr/local/bin leads to where the release was unpacked.
		exe = resolved
	}
	wd, err := os.Getwd()
	if err != nil || !testing.Testing() && !ownTree(wd) { // anybody may have made the working directory
		wd = ""
	}
	user, err := UserPath()
	if err != nil {
		user = ""
	}
	return find(exe, wd, user)
}

// Named checks a path that the user gave (by flag or by WEFT_ONNXRUNTIME_LIB) and makes it absolute.
func Named(path string) (string, error) {
	if !isFile(path) {
		return "", fmt.Errorf("%w: %s, named by %s or --onnxruntime-lib, is not a file; "+
			"correct that path, or unset it and run `weft setup` to use the pinned version %s",
			ErrMissing, path, EnvVar, Version)
	}
	return filepath.Abs(path)
}

// find looks for the library below the executable's directory, the working directory, and at the user's path, in that
// order. Each is "" if it is not known or not to be trusted.
func find(exe, wd, user string) (string, error) {
	var candidates []string
	if exe != "" {
		dir := filepath.Dir(exe)
		candidates = append(candidates,
			filepath.Join(dir, FileName()),
			filepath.Join(filepath.Dir(dir), "lib", FileName()),
			filepath.Join(filepath.Dir(dir), "lib", "weft", FileName()))
		// A binary that was built into its source tree.
		if root, ok := SourceTree(dir); ok {
			candidates = append(candidates, TreePath(root))
		}
	}
	wanted := FileName()
	if root, ok := SourceTree(wd); ok {
		candidates = append(candidates, TreePath(root))
		wanted = TreePath(root)
	}
	for _, path := range append(candidates, user) {
		if isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no %s of version %s was found; run `weft setup` (in Weft's source tree: `make setup`) to "+
		"fetch it, or name a library with %s or --onnxruntime-lib", ErrMissing, wanted, Version, EnvVar)
}

// ownTree reports whether the source tree around a directory, and the library in it, belong to the user who runs this.
// A library in another user's tree would run that user's code.
func ownTree(dir string) bool {
	root, ok := SourceTree(dir)
	if !ok {
		return false
	}
	for _, path := range []string{filepath.Join(root, "go.mod"), TreePath(root)} {
		info, err := os.Lstat(path)
		if err != nil {
			return false
		}
		if stat, is := info.Sys().(*syscall.Stat_t); !is || int(stat.Uid) != os.Geteuid() {
			return false
		}
	}
	return true
}

// SourceTree returns the root of the Weft source tree that holds dir; ok is false where there is none. Another module's
// tree does not count: a library must not be loaded from any directory that happens to be the current one.
func SourceTree(dir string) (root string, ok bool) {
	for dir != "" {
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			// The module's name is in the first line of Weft's go.mod.
			line, _, _ := strings.Cut(string(mod), "\n")
			if strings.TrimSpace(line) == "module github.com/weftserve/weft" {
				return dir, true
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return "", false
}

// isFile reports whether a regular file is there, perhaps behind a link.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// UserPath is where `weft setup` puts the pinned library for the user. The error says that the user has no home.
func UserPath() (string, error) {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) { // unset, or to be ignored by its specification
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("no folder of the user is known: set HOME or XDG_DATA_HOME, or name a folder with --to")
		}
		data = filepath.Join(home, ".local", "share")
		if runtime.GOOS == "darwin" {
			data = filepath.Join(home, "Library", "Application Support")
		}
	}
	return filepath.Join(data, "weft", pinnedPath()), nil
}

// pinnedPath is where the pinned library lies below a folder of Weft. The version is a part of it, so that releases of
// Weft with other libraries do not disturb each other.
func pinnedPath() string { return filepath.Join("onnxruntime", Version, "lib", FileName()) }
