// Command replicas starts several real Weft servers with synthetic devices, puts balancers in front of them, and
// measures what is answered in time, and which calls and episodes suffer while servers are replaced or killed.
// docs/bench/many-machines.md describes the figures.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

func main() { harness.Main("replicas", run) }

func run(ctx context.Context, args []string, o harness.Output) error {
	var line runCommand
	command, err := harness.Parse(ctx, "replicas", "Start several Weft servers, balance calls between them, replace and "+
		"kill servers, and judge what callers see. A run with --quick takes two minutes.", &line, args, o)
	if err != nil {
		return err
	}
	return command.Run()
}

// runCommand is the flags of a run.
type runCommand struct {
	Weft    string   `default:"bin/weft" type:"existingfile" help:"The Weft program that is measured."`
	Deploy  string   `default:"deploy" help:"The folder of the files for Envoy and HAProxy." placeholder:"FOLDER"`
	Envoy   string   `help:"The program of Envoy; empty: what goes through it is skipped." placeholder:"FILE"`
	Haproxy string   `name:"haproxy" help:"The program of HAProxy; empty: what goes through it is skipped." placeholder:"FILE"`
	Quick   bool     `help:"A rough answer within about two minutes: fewer calls and fewer policies."`
	Rounds  int      `help:"How often balancing is measured (3, with --quick 1)." placeholder:"N"`
	Slow    int      `help:"By what devices that are balanced are slower than 16 ms and 1 ms a row, so that processors are not what is measured. 0: 4 with fewer than four processors, 2 with fewer than eight, otherwise 1." placeholder:"N"`
	Only    []string `help:"Only these parts: slow, shared, equal, rolling, kill, episodes, ring." placeholder:"PART"`
	Out     string   `help:"Write the tables into this file too, as Markdown; a quick run writes none." placeholder:"FILE"`
}

// effort is how much is measured.
type effort struct {
	rounds       int
	settle, span time.Duration // of a load that is balanced, before it counts and while it does
	calls        int           // of each kind, while servers are replaced
	late         []time.Duration
	flags        []string // of servers that are replaced
	robots       int      // that have an episode each
}

func (c *runCommand) effort() effort {
	e := effort{
		rounds: 3, settle: 6 * time.Second, span: 20 * time.Second, calls: 20_000,
		late: []time.Duration{0, time.Second, 5 * time.Second}, robots: 100_000,
	}
	if c.Quick {
		e = effort{
			rounds: 1, settle: 5 * time.Second, span: 8 * time.Second, calls: 1500,
			late: []time.Duration{time.Second}, flags: []string{"--lame-duck=2s"}, robots: 5000,
		}
	}
	e.rounds = cmp.Or(c.Rounds, e.rounds)
	return e
}

// part is what a run is made of; quick: also with --quick.
type part struct {
	name    string
	quick   bool
	measure func(*trial) error
}

func parts() (all []part) {
	for i := range cells {
		c := &cells[i]
		all = append(all, part{c.name, i == 0, func(r *trial) error { return r.balance(c) }})
	}
	return append(all,
		part{"rolling", true, (*trial).rolling}, part{"kill", true, (*trial).kill},
		part{"episodes", true, (*trial).episodes}, part{"ring", true, (*trial).ring})
}

// Validate is called by the parser of the command line.
func (c *runCommand) Validate() error {
	for _, name := range c.Only {
		if !slices.ContainsFunc(parts(), func(p part) bool { return p.name == name }) {
			return fmt.Errorf("--only %s: expected some of slow, shared, equal, rolling, kill, episodes, ring", name)
		}
	}
	if c.Rounds < 0 || c.Slow < 0 {
		return fmt.Errorf("--rounds %d --slow %d: expected 0 or more", c.Rounds, c.Slow)
	}
	if cpus := runtime.NumCPU(); c.Slow == 0 {
		c.Slow = max(1, 4>>(cpus/4)) // they carry five servers and all callers
	}
	return nil
}

// has reports whether what a policy goes through is here.
func (c *runCommand) has(p *policy) bool {
	return p.through == "" || p.through == envoyName && c.Envoy != "" || p.through == haproxyName && c.Haproxy != ""
}

// trial is a run of the program.
type trial struct {
	*runCommand
	effort

	ctx      context.Context //nolint:containedctx // a trial is as short as a call
	progress io.Writer
	folder   string
	started  int // processes, which have folders of their own
	book     book
}

// Run measures in a folder of its own.
func (c *runCommand) Run(ctx context.Context, o harness.Output) error {
	return harness.InFolder("weft-replicas", func(folder string) (err error) {
		r := &trial{runCommand: c, effort: c.effort(), ctx: ctx, progress: o.Err, folder: folder, book: newBook()}
		for _, name := range []string{envoyName, haproxyName} {
			if !c.has(&policy{through: name}) {
				fmt.Fprintf(o.Err, "replicas: SKIPPED: what goes through %s, which is not here\n", name)
			}
		}
		for _, p := range parts() {
			chosen := len(c.Only) == 0 && (p.quick || !c.Quick) || slices.Contains(c.Only, p.name)
			if !chosen || ctx.Err() != nil {
				continue
			}
			if failed := p.measure(r); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
			}
		}
		return errors.Join(err, ctx.Err(), r.publish(o, err == nil))
	})
}

// row notes a row of a table, and shows it.
func (r *trial) row(title string, cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	fmt.Fprintf(r.progress, "%s: %s\n", title, strings.Join(row, ", "))
	r.book.rows[title] = append(r.book.rows[title], row)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
