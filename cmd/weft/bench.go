package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/loadgen"
)

// benchCommand is `weft bench`.
type benchCommand struct {
	Asked string `arg:"" optional:"" name:"model" help:"The model to ask, as --model."`

	loadgen.Options
}

// Help implements kong.HelpProvider: the text below the flags.
func (benchCommand) Help() string {
	return `With --callers, each caller sends its next request after its answer. With --rate, the answers do not change the rate,
and a latency counts from when the request was due. Ctrl-C ends the run with a report, which
docs/operations/benchmarking.md explains.`
}

// Run puts load on a server until the run is over or a signal ends it; either way it reports.
func (c *benchCommand) Run(s streams) error {
	if c.Asked != "" && c.Model != "" && c.Asked != c.Model {
		return config.Faults{{Key: "--model", Message: fmt.Sprintf("expected the model as an argument or by --model, found "+
			"both: %s and %s", c.Asked, c.Model)}}
	}
	c.Model = cmp.Or(c.Asked, c.Model)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	// The heap is small, and would be collected all the time: that takes a sixth of the time of a request here, and
	// would be measured as the server's.
	debug.SetGCPercent(800)
	return loadgen.Run(ctx, &c.Options, s.out, s.err)
}
