// Command controlloop steers many simulated machines at a fixed rate with policies that a Weft server runs, and reports
// how well each version did: as a controller and as a service.
//
// Each control period a machine is observed, the server is asked for an action with the rest of the period as
// deadline, and the machine moves on by one step. A call that is late or fails cannot stop the world: the machine
// then holds its previous action, as a robot would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/weftserve/weft/examples/plant"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "controlloop: %v\n", err)
		os.Exit(1)
	}
}

// run plays all episodes and writes the report. Interrupting it reports the episodes that were finished.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	kind, err := plant.Lookup(o.machine)
	if err != nil {
		return err
	}
	// A refusal shows in the report, and the next observation is soon there: nothing is sent again.
	server, err := weftclient.New(o.addr, weftclient.WithAttempts(1))
	if err != nil {
		return fmt.Errorf("--addr %s: %w", o.addr, err)
	}
	defer server.Close()

	c := &client{Client: server, model: o.model, kind: kind, reports: o.report, checkpoint: o.checkpoint}
	for _, v := range o.versions {
		if err := c.check(ctx, v); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d machines %q at %g Hz, deadline %v, model %s at %s\n",
		o.episodes, kind.Name, o.hz, o.deadline.Round(time.Microsecond), o.model, o.addr)

	machines := newFleet(o, kind, c.act)
	machines.over = c.finish
	if o.rollout == nil {
		return writeReport(stdout, machines.run(ctx))
	}
	machines.duration = forever
	var episodes []*episode
	err = o.rollout.lead(ctx, o.model, float64(kind.MaxSteps), stdout, weftv1.NewModelServiceClient(server.Conn()),
		func(ctx context.Context) { episodes = machines.run(ctx) })
	return errors.Join(err, writeReport(stdout, episodes))
}

// forever is longer than any run.
const forever = 1000 * time.Hour
