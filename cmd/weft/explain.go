package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/ask"
)

// explainCommand is `weft explain`.
type explainCommand struct{ ask.Explain }

// Help implements kong.HelpProvider: the text below the flags.
func (explainCommand) Help() string {
	return `Without a request, the command lists recent requests that were late or failed. The server remembers about
the last minute of requests at 1,000 per second.`
}

// Run prints the explanation. The server's text has names of callers, so that it is made printable.
func (c *explainCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	return c.Explain.Run(ctx, app.Printable(s.out))
}
