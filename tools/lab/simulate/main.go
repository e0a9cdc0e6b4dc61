// Command simulate compares the scheduler with others under simulated load, and writes the tables of docs/sim.
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

	"github.com/weftserve/weft/tools/lab/sim"
)

// options are the command line.
type options struct {
	Quick     bool          `help:"A rough answer within a minute: short runs of a single seed."`
	Out       string        `help:"Write the tables and plots into this folder too." placeholder:"DIR"`
	Policies  []string      `help:"Only these policies and variants: names, or parts of them."`
	Workloads []string      `help:"Only these workloads and scenes: names, or parts of them."`
	Span      time.Duration `help:"Virtual time of arrivals in each run (20s, with --quick 5s)."`
	Generated int           `help:"Instead, compare on so many workloads that are drawn." placeholder:"N"`
	Search    int           `help:"Instead, draw so many, and write the worst against each rival." placeholder:"N"`
	First     uint64        `help:"The seed of the first workload that is drawn." default:"1"`
	Seeds     int           `help:"Runs of each workload that is drawn." default:"3"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "simulate: %v\n", err)
		os.Exit(1)
	}
}

// run simulates and writes the tables. Each figure goes to errs as soon as it is known.
func run(args []string, out, errs io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("simulate"),
		kong.Description("Compare the scheduler with others under simulated load."), kong.Writers(out, errs))
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
	shown := show(errs)
	defer shown.line.Close()
	if study.Progress = shown.found; o.Generated > 0 || o.Search > 0 {
		return o.match(study, shown, out)
	}
	found := study.Run()
	shown.line.Close() // out may be the same terminal
	if err := found.Markdown(out); err != nil || o.Out == "" {
		return err
	}
	return write(found, o.Out, "bin/simulate "+strings.Join(args, " "))
}

// match plays workloads that are drawn.
func (o *options) match(s *sim.Study, shown *shown, out io.Writer) error {
	count, e := o.Generated, sim.Effort{Seeds: o.Seeds, Precision: s.Effort.Precision}
	if o.Generated == 0 {
		count, e = o.Search, sim.SearchEffort
	}
	if o.Search > 0 {
		all := sim.PlayGenerated(s.Families, o.First, count, e, s.Workers, s.Progress)
		shown.line.Close()
		return sim.WriteWorst(out, all.Worst())
	}
	var policies []sim.Maker
	for _, f := range s.Families {
		policies = append(policies, f.Members...)
	}
	for _, lanes := range []struct {
		title string
		of    func([]sim.Maker) []sim.Maker
	}{{"Two batches in flight", sim.TwoLanes}, {"One batch at a time", sim.OneLane}} {
		all := sim.PlayGenerated(sim.Families(lanes.of(policies)), o.First, count, e, s.Workers, s.Progress)
		shown.line.Close()
		all.Title = lanes.title
		if err := all.Markdown(out); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) study() (*sim.Study, error) {
	policies, workloads := asked(o.Policies), asked(o.Workloads)
	families := func(all []sim.Maker) []sim.Family {
		return sim.Families(choose(policies, all, func(m sim.Maker) string { return m.Family + "\n" + m.Name }))
	}
	s := &sim.Study{
		Families: families(sim.Policies()), Variants: families(sim.Variants()), InFlight: families(sim.InFlight()),
		Workloads: choose(workloads, slices.Concat(sim.Suite(), sim.Bursts()),
			func(w sim.Workload) string { return w.Name }),
		Scenes:  choose(workloads, sim.Scenes(), func(s sim.Scene) string { return s.Name }),
		Shifts:  choose(workloads, sim.Shifts(), func(s sim.Shift) string { return s.Name }),
		Effort:  sim.Full,
		Workers: runtime.GOMAXPROCS(0),
	}
	for _, parts := range []map[string]bool{policies, workloads} {
		for part, found := range parts {
			if !found {
				return nil, fmt.Errorf("nothing is called %q; run it with --quick to see the names there are", part)
			}
		}
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

// asked returns the parts of names that were asked for, none of them found.
func asked(parts []string) map[string]bool {
	all := map[string]bool{}
	for _, part := range parts {
		all[part] = false
	}
	return all
}

// choose returns those of all that have one of the parts in a name, or all if none were asked for. It notes the parts
// that it finds.
func choose[T any](parts map[string]bool, all []T, name func(T) string) []T {
	if len(parts) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(it T) bool {
		unwanted := true
		for part := range parts {
			if strings.Contains(name(it), part) {
				unwanted, parts[part] = false, true
			}
		}
		return unwanted
	})
}
