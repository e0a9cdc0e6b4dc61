// Command gpucheck serves models with Weft on one device and checks the server's promises there: that its answers are
// right, that it keeps the device busy and shares it by weight, that a batch which runs out of memory harms no other,
// and that its telemetry is true. It measures the gain of CUDA graphs, too. It ends with a table, and with status 1 if
// a check failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	statusFailed = 1 // a check failed, or could not be made
	statusUsage  = 2 // the command line is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run makes the checks of a command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	parser, err := kong.New(&o, kong.Name("gpucheck"),
		kong.Description("Check a Weft server on a GPU (or, with --device cpu, what can be checked without one)."),
		kong.Writers(stdout, stderr), kong.Vars{"checks": strings.Join(checkNames(), ", ")})
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err == nil {
		err = o.check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "gpucheck: %v\n", err)
		return statusUsage
	}
	s, err := newSuite(&o, stderr)
	if err == nil {
		err = s.run(ctx)
	}
	if s != nil {
		err = errors.Join(err, s.report.publish(stdout))
	}
	if err != nil {
		fmt.Fprintf(stderr, "gpucheck: %v\n", err)
		return statusFailed
	}
	return 0
}
