package app

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/weftserve/weft/internal/ortlib"
)

// Build is what this program is built of.
type Build struct {
	// Version is the release, the Go command's name of the commit, or "(devel)" or "unknown".
	// Version is that of the release, the Go command's name of the commit, or "(devel)" or "unknown".
	Version string `json:"version"`
	// Revision is the commit, and Time is when it was made, in RFC 3339. Both are "" where the program was not built in
	// a checkout: a release by its version has none.
	Revision string `json:"revision"`
	Time     string `json:"time"`
	// Modified reports whether the checkout had changes that are not in the commit.
	Modified    bool   `json:"modified"`
	Go          string `json:"go"`
	Platform    string `json:"platform"`
	ONNXRuntime string `json:"onnxruntime"` // the release that it is made for, whichever is loaded
}

// ReadBuild returns what the Go command stamped into this program.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info)
}

// buildOf reads what the Go command has written into a program about its source.
func buildOf(info *debug.BuildInfo) Build {
	b := Build{
		Version: cmp.Or(info.Main.Version, "unknown"),
		Go:      runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, ONNXRuntime: ortlib.Version,
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is one line for people.
func (b Build) String() string {
	commit := ""
	if b.Revision != "" {
		commit = fmt.Sprintf(", commit %s of %s", b.Revision, b.Time)
	}
	if b.Modified {
		commit += " with changes"
	}
	return fmt.Sprintf("weft %s%s, %s %s, made for ONNX Runtime %s", b.Version, commit, b.Go, b.Platform, b.ONNXRuntime)
}
