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
	Paths   []string `arg:"" name:"path" help:"Repositories, or directories of models or versions in one."`
	Replace bool     `help:"Replace a SHA256SUMS that differs from the files."`
	Stores  []string `name:"model-stores" placeholder:"DIR" help:"Directories to which symbolic links may lead."`
}

// Run writes the digests. A signal ends the reading of files; each list is written in one step.
func (c *sealCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Seal(ctx, c.Paths, c.Replace, c.Stores, s.out)
}
