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
	return `For example: weft explain robot-7/step-123

It tells in sentences when the request was admitted, who had the device while it waited, with whom it ran and why then.
A server remembers those of the last minute that were late or not answered, and some others. The name of an episode
tells of its latest request. Digits are a caller's name if there is such a one, else the server's number of the request;
'#1234' is the latter, in quotation marks because of the shell. The exit status is 1 if the request is not remembered.`
}

// Run prints the explanation. The server's text has names of callers, so that it is made printable.
func (c *explainCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	return c.Explain.Run(ctx, app.Printable(s.out))
}
