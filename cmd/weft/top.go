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
	return `It shows which versions have the devices when, who waits, and who was late because of whom. The key ? lists the keys.
NO_COLOR in the environment has letters take the place of colors.`
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
