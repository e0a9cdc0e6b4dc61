package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/weftserve/weft/internal/ortlib"
)

// versionCommand is `weft version`.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(s streams) error {
	_, err := fmt.Fprintf(s.out, "weft %s, %s %s/%s, made for ONNX Runtime %s\n",
		buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, ortlib.Version)
	return err
}

// buildVersion returns the version that the Go command stamped: a release, or a commit.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "of unknown version"
	}
	return info.Main.Version
}
