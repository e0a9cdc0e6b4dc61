// Command fuzzlive sends a real server what hostile callers send, from seeds: valid, mutated and random messages,
// header blocks and HTTP/2 frames, on many connections. The server must live, answer each whole call, never with
// INTERNAL, log no fault, hold no more memory and goroutines at the end than at the start, and go on answering others
// right.
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fuzzlive: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("fuzzlive"), kong.Writers(stdout, stderr),
		kong.Description("Send a real server what hostile callers send, and see that it goes on serving."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	return o.fuzz(ctx, stdout)
}
