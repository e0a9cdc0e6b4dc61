package main

import (
	"fmt"
	"runtime"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/ortlib"
)

// versionCommand is `weft version`.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(s streams) error {
	_, err := fmt.Fprintf(s.out, "weft %s, %s %s/%s, made for ONNX Runtime %s\n",
		app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, ortlib.Version)
	return err
}
