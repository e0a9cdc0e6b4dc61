package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/top"
)

// topCommand is `weft top`.
type topCommand struct{ top.Options }

// Help implements kong.HelpProvider: the text below the flags.
func (topCommand) Help() string {
	return `Press ? for the keys. If NO_COLOR is set, letters replace the colors.`
}

// Run shows.
func (c *topCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	// The screen is drawn with control characters, which Printable would escape.
	out := s.out
	if c.Once {
		out = app.Printable(out)
	}
	return top.Run(ctx, &c.Options, out)
}
