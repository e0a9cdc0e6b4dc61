// Command attack measures from outside what a stranger can cost a Weft server: its memory, its processor, and the time
// of honest callers. It attacks servers that it starts itself, on loopback addresses only. docs/BENCHMARKING.md
// describes the figures.
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

// commandLine is the commands. The hidden ones are the processes of the attacker and of the honest callers.
type commandLine struct {
	Run    runCommand    `cmd:"" default:"withargs" help:"Attack a server, and print what it cost."`
	Soak   soakCommand   `cmd:"" help:"Have unread streams, slow bodies, swaps of versions, endless episodes and killed workers go on at once, and see that nothing grows."`
	Strike strikeCommand `cmd:"" hidden:""`
	Honest honestCommand `cmd:"" hidden:""`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], output{os.Stdin, os.Stdout, os.Stderr})
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "attack: %v\n", err)
		os.Exit(1)
	}
}

// output is where a command reads when to go on (in), and writes its result (out) and everything else (err).
type output struct {
	in       io.Reader
	out, err io.Writer
}

func run(ctx context.Context, args []string, o output) error {
	var line commandLine
	parser, err := kong.New(&line, kong.Name("attack"), kong.Writers(o.out, o.err),
		kong.Description("Attack a Weft server that this program starts, and measure what that costs it and honest "+
			"callers. A full run takes about 25 minutes, --quick six."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(o))
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}
