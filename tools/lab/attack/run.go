package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftserve/weft/tools/lab/affinity"
	"github.com/weftserve/weft/tools/lab/harness"
)

var errFailed = errors.New("the server does not withstand all attacks: see the verdicts")

// Run attacks, and prints the tables.
func (c *runCommand) Run(ctx context.Context, o harness.Output) error {
	if c.List {
		return list(o.Out)
	}
	cpus, err := affinity.Own()
	if err != nil {
		return err
	}
	if len(cpus) < 2 {
		return fmt.Errorf("this program may use %d processor; expected 2 or more: one for the server, the others for its "+
			"callers", len(cpus))
	}
	return harness.InFolder("weft-attack", func(folder string) error { return c.attack(ctx, o, folder, cpus) })
}

// attack attacks with each of the chosen attacks, and prints the tables.
func (c *runCommand) attack(ctx context.Context, o harness.Output, folder string, cpus []int) (err error) {
	var verdicts []verdict
	for _, a := range c.chosen() {
		b := &bout{runCommand: c, attack: a, effort: c.effort(), clients: cpus[1:], progress: o.Err}
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
		fmt.Fprintf(o.Err, "%s: %s\n", a.name, v.word())
		if len(v.fails()) > 0 && !errors.Is(err, errFailed) {
			err = errors.Join(err, errFailed)
		}
	}
	all := tables(verdicts)
	for _, t := range all {
		err = errors.Join(err, t.Text(o.Out))
	}
	if c.Out != "" && !c.Quick {
		err = errors.Join(err, c.publish(all))
	}
	return err
}
