// Command fuzzlive sends a real server what hostile callers send, from seeds: valid, mutated and random messages,
// header blocks and HTTP/2 frames, on many connections. The server must live, answer each whole call, never with
// INTERNAL, log no fault, hold no more memory and goroutines at the end than at the start, and go on answering others
// right.
package main

import (
	"context"

	"github.com/weftserve/weft/tools/lab/harness"
)

func main() { harness.Main("fuzzlive", run) }

func run(ctx context.Context, args []string, o harness.Output) error {
	var with options
	if _, err := harness.Parse(ctx, "fuzzlive", "Send a real server what hostile callers send, and see that it goes on "+
		"serving.", &with, args, o); err != nil {
		return err
	}
	return with.fuzz(ctx, o.Out)
}
