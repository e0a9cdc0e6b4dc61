// Command setup fetches the ONNX Runtime shared library that Weft is built against.
//
// It needs npm on the PATH and the network once; when the library is in place and its digest is right,
// or WEFT_ONNXRUNTIME_LIB names another one, it downloads nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"github.com/weftserve/weft/internal/ortlib"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	said, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1) //nolint:gocritic // exitAfterDefer: nothing is left to clean up.
	}
	fmt.Println(said)
}

// run returns the line for the user that says which library is in place.
func run(ctx context.Context) (string, error) {
	if named := os.Getenv(ortlib.EnvVar); named != "" {
		path, err := ortlib.Named(named)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("ONNX Runtime: %s (named by %s)", path, ortlib.EnvVar), nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root, ok := ortlib.SourceTree(wd)
	if !ok {
		return "", fmt.Errorf("%s is not inside Weft's source tree; run `make setup` there", wd)
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	lib, ok := pinned[platform]
	if !ok {
		return "", fmt.Errorf("%w: no pinned library for %s; name one of version %s or newer with %s",
			ortlib.ErrMissing, platform, ortlib.Version, ortlib.EnvVar)
	}
	in := installer{lib: lib, tarballSHA512: tarballSHA512, path: ortlib.TreePath(root), fetch: npmPack}
	if err := in.install(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("ONNX Runtime: %s (version %s)", in.path, ortlib.Version), nil
}
