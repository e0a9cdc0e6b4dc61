// Command sim compares the scheduler with others under simulated load, and writes the tables and plots of docs/sim.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/sharedsched/sim"
)

// options are the command line.
type options struct {
	Quick     bool          `help:"A rough answer within a minute: short runs of a single seed."`
	Out       string        `help:"Write the tables and plots into this folder too." placeholder:"DIR"`
	Policies  []string      `help:"Only these policies and variants: names, or parts of them."`
	Workloads []string      `help:"Only these workloads and scenes: names, or parts of them."`
	Span      time.Duration `help:"Virtual time of arrivals in each run (20s, with --quick 5s)."`
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "sim: %v\n", err)
		os.Exit(1)
	}
}

// run simulates and writes the tables. Each figure goes to progress as soon as it is known.
func run(args []string, out, progress io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("sim"),
		kong.Description("Compare the scheduler with others under simulated load."), kong.Writers(out, progress))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	study, err := o.study()
	if err != nil {
		return err
	}
	study.Progress = func(line string) { fmt.Fprintln(progress, line) }
	found := study.Run()
	if err := found.Markdown(out); err != nil || o.Out == "" {
		return err
	}
	return write(found, o.Out, "go run ./scripts/sim "+strings.Join(args, " "))
}

func (o *options) study() (*sim.Study, error) {
	maker := func(m *sim.Maker) []string { return []string{m.Family, m.Name} }
	policies, workloads := chooser{parts: o.Policies}, chooser{parts: o.Workloads}
	s := &sim.Study{
		Families: sim.Families(choose(&policies, sim.Policies(), maker)),
		Variants: sim.Families(choose(&policies, sim.Variants(), maker)),
		InFlight: sim.Families(choose(&policies, sim.InFlight(), maker)),
		Workloads: choose(&workloads, slices.Concat(sim.Suite(), sim.Bursts()),
			func(w *sim.Workload) []string { return []string{w.Name} }),
		Scenes:    choose(&workloads, sim.Scenes(), func(s *sim.Scene) []string { return []string{s.Name} }),
		Shifts:    choose(&workloads, sim.Shifts(), func(s *sim.Shift) []string { return []string{s.Name} }),
		Effort:    sim.Full,
		Hindsight: !o.Quick,
		Workers:   runtime.GOMAXPROCS(0),
	}
	for _, part := range slices.Concat(policies.unknown(), workloads.unknown()) {
		return nil, fmt.Errorf("nothing is called %q; run it with --quick to see the names there are", part)
	}
	if len(s.Families) == 0 {
		return nil, fmt.Errorf("--policies names variants only; name a policy to compare them with, such as %s",
			sim.Ours)
	}
	if s.Families[0].Name != sim.Ours {
		s.Shifts, s.InFlight = nil, nil // they play the server's scheduler only
	}
	if o.Quick {
		s.Effort = sim.Quick
	}
	if o.Span > 0 {
		s.Effort.Span = o.Span
	}
	if o.Out != "" {
		s.Loads = []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 3}
	}
	return s, nil
}

// chooser keeps the parts of names that were asked for.
type chooser struct {
	parts []string
	found map[string]bool // parts that occur in a name
}

// choose returns those of all that have one of the parts in a name, or all if none were asked for.
func choose[T any](c *chooser, all []T, names func(*T) []string) []T {
	if len(c.parts) == 0 {
		return all
	}
	if c.found == nil {
		c.found = map[string]bool{}
	}
	var some []T
	for i := range all {
		wanted := false
		for _, part := range c.parts {
			if slices.ContainsFunc(names(&all[i]), func(name string) bool { return strings.Contains(name, part) }) {
				wanted, c.found[part] = true, true
			}
		}
		if wanted {
			some = append(some, all[i])
		}
	}
	return some
}

// unknown returns the parts that occur in no name.
func (c *chooser) unknown() []string {
	return slices.DeleteFunc(slices.Clone(c.parts), func(part string) bool { return c.found[part] })
}
