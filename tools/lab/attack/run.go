package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weftserve/weft/tools/lab/affinity"
)

var errFailed = errors.New("the server does not withstand all attacks: see the verdicts")

// Run attacks, and prints the tables.
func (c *runCommand) Run(ctx context.Context, o output) (err error) {
	if c.List {
		return list(o.out)
	}
	cpus, err := affinity.Own()
	if err != nil {
		return err
	}
	if len(cpus) < 2 {
		return fmt.Errorf("this program may use %d processor; expected 2 or more: one for the server, the others for its "+
			"callers", len(cpus))
	}
	folder, err := os.MkdirTemp("", "weft-attack")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil { // else the logs are of use
			err = os.RemoveAll(folder)
		}
	}()
	var verdicts []verdict
	for _, a := range c.chosen() {
		b := &bout{runCommand: c, attack: a, effort: c.effort(), clients: cpus[1:], progress: o.err}
		rounds, failed := b.fight(ctx, folder, cpus[:1])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = errors.Join(err, failed)
		if len(rounds) == 0 {
			continue
		}
		v := judge(a, rounds, float64(c.Budget))
		verdicts = append(verdicts, v)
		fmt.Fprintf(o.err, "%s: %s\n", a.name, v.word())
		if len(v.fails()) > 0 && !errors.Is(err, errFailed) {
			err = errors.Join(err, errFailed)
		}
	}
	all := tables(verdicts)
	for _, t := range all {
		err = errors.Join(err, t.text(o.out))
	}
	if c.Out != "" && !c.Quick {
		err = errors.Join(err, c.publish(all))
	}
	return err
}
