package ortlib

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

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

// pinnedPath is the pinned library's below a folder of Weft's.
func pinnedPath() string { return filepath.Join("onnxruntime", Version, "lib", FileName()) }
