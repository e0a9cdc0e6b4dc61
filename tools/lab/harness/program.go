package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Output is where a command reads when to go on (In), and writes its result (Out) and everything else (Err).
type Output struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a program until it ends or is told to stop, and ends with status 1 if it fails.
func Main(name string, run func(ctx context.Context, args []string, o Output) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], Output{os.Stdin, os.Stdout, os.Stderr})
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Parse reads a command line, and gives a command that it names the context and the output.
func Parse(ctx context.Context, name, about string, line any, args []string, o Output) (*kong.Context, error) {
	parser, err := kong.New(line, kong.Name(name), kong.Description(about), kong.Writers(o.Out, o.Err),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(o))
	if err != nil {
		return nil, err
	}
	return parser.Parse(args)
}
