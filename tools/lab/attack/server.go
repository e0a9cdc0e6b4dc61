package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

const stopTime = 20 * time.Second

// serve starts a server on some processors, with its models and its log in a folder, and returns when it is ready.
func serve(ctx context.Context, weft, folder string, cpus []int, flags ...string) (*harness.Server, error) {
	repository := filepath.Join(folder, "models")
	if err := writeModels(repository); err != nil {
		return nil, err
	}
	return harness.Start(ctx, harness.Options{
		Program: weft, Log: filepath.Join(folder, "server.log"), CPUs: cpus, Stop: stopTime,
		Args: harness.Serve(repository, append([]string{"--admin-listen=", "--watch-interval=0s"}, flags...)...),
	})
}
