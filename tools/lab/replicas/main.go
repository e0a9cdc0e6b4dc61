// Command replicas starts several real Weft servers with synthetic devices, puts balancers in front of them, and
// measures what is answered in time, and which calls and episodes suffer while servers are replaced or killed.
// docs/SCALE.md describes the figures.
package main

import (
	"context"

	"github.com/weftserve/weft/tools/lab/harness"
)

func main() { harness.Main("replicas", run) }

func run(ctx context.Context, args []string, o harness.Output) error {
	var line runCommand
	command, err := harness.Parse(ctx, "replicas", "Start several Weft servers, balance calls between them, replace and "+
		"kill servers, and judge what callers see. A full run takes about an hour, --quick two minutes.", &line, args, o)
	if err != nil {
		return err
	}
	return command.Run()
}
