package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weftserve/weft/internal/app"
)

// sealCommand is `weft seal`.
type sealCommand struct {
	Repositories []string `arg:"" name:"repository" help:"Directories of <model>/<version>/model.onnx."`
}

// Run writes the digests.
func (c *sealCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Seal(ctx, c.Repositories, s.out)
}
