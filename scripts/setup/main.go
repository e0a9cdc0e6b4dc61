// Command setup fetches the ONNX Runtime shared library that Weft is built against.
//
// It needs the network once, and npm or a registry that npm would ask; when the library is in place and its digest is
// right, or WEFT_ONNXRUNTIME_LIB names another one, it downloads nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/ortlib/fetch"
	"github.com/weftserve/weft/internal/progress"
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
	if said, err := fetch.Named(); said != "" || err != nil {
		return said, err
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root, ok := ortlib.SourceTree(wd)
	if !ok {
		return "", fmt.Errorf("%s is not inside Weft's source tree; run `make setup` there", wd)
	}
	place, err := fetch.NewPlace(ortlib.TreePath(root))
	if err != nil {
		return "", err
	}
	shown := progress.Start(os.Stderr, "setup", progress.Bytes(fetch.Package, place.Read))
	defer shown.Close()
	return place.String(), place.Fetch(ctx, fetch.Download)
}
