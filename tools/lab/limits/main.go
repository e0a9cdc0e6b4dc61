// Command limits measures how near a Weft server comes to what is possible: to a bare gRPC echo, to ONNX Runtime
// without a server, and to its own capacity while more is asked of it. All that is compared takes turns in one run.
// docs/bench/README.md describes the figures.
package main

import (
	"context"

	"github.com/weftserve/weft/tools/lab/harness"
)

// commandLine is the commands. The hidden ones are the processes that the first one measures.
type commandLine struct {
	Run    runCommand    `cmd:"" default:"withargs" help:"Measure, and print the tables."`
	Echo   echoCommand   `cmd:"" hidden:""`
	Engine engineCommand `cmd:"" hidden:""`
}

func main() { harness.Main("limits", run) }

func run(ctx context.Context, args []string, o harness.Output) error {
	var line commandLine
	command, err := harness.Parse(ctx, "limits", "Compare a Weft server with a bare gRPC echo, with ONNX Runtime alone, "+
		"and with itself under overload. A full run takes about an hour and a half, --quick two minutes.", &line, args, o)
	if err != nil {
		return err
	}
	return command.Run()
}
