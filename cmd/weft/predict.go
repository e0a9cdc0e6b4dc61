package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/ask"
)

// predictCommand is `weft predict`.
type predictCommand struct{ ask.Options }

// Help implements kong.HelpProvider: the text below the flags.
func (predictCommand) Help() string {
	return `Types and shapes come from the model. Without --input and --episode, the command prints the inputs that the model takes.`
}

// Run asks for one prediction. Inputs may come from standard input.
func (c *predictCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	return ask.Run(ctx, &c.Options, os.Stdin, app.Printable(s.out))
}
