// Command limits measures how near a Weft server comes to what is possible: to a bare gRPC echo, to ONNX Runtime
// without a server, and to its own capacity while more is asked of it. All that is compared takes turns in one run.
// docs/BENCHMARKING.md describes the figures.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commandLine is the commands. The hidden ones are the processes that the first one measures.
type commandLine struct {
	Run    runCommand    `cmd:"" default:"withargs" help:"Measure, and print the tables."`
	Echo   echoCommand   `cmd:"" hidden:""`
	Engine engineCommand `cmd:"" hidden:""`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "limits: %v\n", err)
		os.Exit(1)
	}
}

// output is where a command writes its result (out) and everything else (err).
type output struct{ out, err io.Writer }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var line commandLine
	parser, err := kong.New(&line, kong.Name("limits"), kong.Writers(stdout, stderr),
		kong.Description("Compare a Weft server with a bare gRPC echo, with ONNX Runtime alone, and with itself under "+
			"overload. A full run takes about an hour and a half, --quick two minutes."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(output{stdout, stderr}))
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}
