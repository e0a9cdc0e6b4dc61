// Command attack measures from outside what a stranger can cost a Weft server: its memory, its processor, and the time
// of honest callers. It attacks servers that it starts itself, on loopback addresses only. docs/bench/README.md
// describes the figures.
package main

import (
	"context"

	"github.com/weftserve/weft/tools/lab/harness"
)

// commandLine is the commands. The hidden ones are the processes of the attacker and of the honest callers.
type commandLine struct {
	Run    runCommand    `cmd:"" default:"withargs" help:"Attack a server, and print what it cost."`
	Soak   soakCommand   `cmd:"" help:"Have unread streams, slow bodies, swaps of versions, endless episodes and killed workers go on at once, and see that nothing grows."`
	Strike strikeCommand `cmd:"" hidden:""`
	Honest honestCommand `cmd:"" hidden:""`
}

func main() { harness.Main("attack", run) }

func run(ctx context.Context, args []string, o harness.Output) error {
	var line commandLine
	command, err := harness.Parse(ctx, "attack", "Attack a Weft server that this program starts, and measure what that "+
		"costs it and honest callers. A full run takes about 25 minutes, --quick six.", &line, args, o)
	if err != nil {
		return err
	}
	return command.Run()
}
