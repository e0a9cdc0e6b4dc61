package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftserve/weft/sharedsched/sim"
)

// simCommand is `weft sim`: the scheduler and others under simulated load, or the scheduler once more under a recorded one.
type simCommand struct {
	Quick     bool     `help:"A rough answer within a minute: short runs of a single seed."`
	Out       string   `help:"Write the tables and plots into this folder too." type:"path" placeholder:"DIR"`
	Policies  []string `help:"Only these policies and variants: names, or parts of them."`
	Workloads []string `help:"Only these workloads and scenes: names, or parts of them."`
	Seconds   float64  `help:"Virtual seconds of arrivals in each run (20, with --quick 5)."`
	Seeds     int      `help:"Runs for each figure and draw of models (2, with --quick 1)."`
	Replay    string   `help:"Simulate nothing, but decide once more what \"weft serve --sched-trace FILE\" recorded, and tell the first difference if there is one." type:"path" placeholder:"FILE"`
}

// Run simulates and writes the tables. Each figure goes to the error stream as soon as it is known.
func (c *simCommand) Run(s streams) error {
	if c.Replay != "" {
		return c.replay(s.out)
	}
	study, err := c.study()
	if err != nil {
		return err
	}
	var oneByOne sync.Mutex // several workers find figures
	study.Progress = func(line string) {
		oneByOne.Lock()
		defer oneByOne.Unlock()
		fmt.Fprintln(s.err, line)
	}
	start := time.Now()
	found, err := study.Run()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.err, "took %v\n", time.Since(start).Round(time.Second))
	if err := found.Markdown(s.out); err != nil {
		return err
	}
	if c.Out == "" {
		return nil
	}
	return c.write(found)
}

func (c *simCommand) study() (*sim.Study, error) {
	policies := chooser{parts: c.Policies}
	workloads := chooser{parts: c.Workloads}
	s := &sim.Study{
		Families:  sim.Families(choose(&policies, sim.Policies(), func(m *sim.Maker) []string { return []string{m.Family, m.Name} })),
		Variants:  choose(&policies, sim.Variants(), func(m *sim.Maker) []string { return []string{m.Name} }),
		InFlight:  choose(&policies, sim.InFlight(), func(m *sim.Maker) []string { return []string{m.Name} }),
		Workloads: choose(&workloads, slices.Concat(sim.Suite(), sim.Bursts()), func(w *sim.Workload) []string { return []string{w.Name} }),
		Scenes:    choose(&workloads, sim.Scenes(), func(s *sim.Scene) []string { return []string{s.Name} }),
		Shifts:    choose(&workloads, sim.Shifts(), func(s *sim.Shift) []string { return []string{s.Name} }),
		Effort:    sim.Full,
		Workers:   runtime.GOMAXPROCS(0),
	}
	if err := policies.verdict("--policies"); err != nil {
		return nil, err
	}
	if err := workloads.verdict("--workloads"); err != nil {
		return nil, err
	}
	if len(s.Families) == 0 {
		return nil, fmt.Errorf("--policies names variants only; name a policy to compare them with, such as %s", sim.Ours)
	}
	if s.Families[0].Name != sim.Ours {
		s.Shifts, s.InFlight = nil, nil // they are of no other policy
	}
	if c.Quick {
		s.Effort = sim.Quick
	}
	s.Hindsight = !c.Quick
	if c.Seconds < 0 || c.Seeds < 0 {
		return nil, fmt.Errorf("--seconds %g and --seeds %d must not be negative", c.Seconds, c.Seeds)
	}
	if c.Seconds > 0 {
		s.Effort.Span = time.Duration(c.Seconds * float64(time.Second))
	}
	if c.Seeds > 0 {
		s.Effort.Seeds = c.Seeds
	}
	if c.Out != "" {
		s.Loads = []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 3}
	}
	return s, nil
}

// chooser keeps what was asked for by name.
type chooser struct {
	parts []string
	found []bool // by part: something has it in its name
}

// choose returns those of all that have one of the parts in a name, or all if none were asked for.
func choose[T any](c *chooser, all []T, names func(*T) []string) []T {
	if len(c.parts) == 0 {
		return all
	}
	if c.found == nil {
		c.found = make([]bool, len(c.parts))
	}
	var some []T
	for i := range all {
		wanted := false
		for k, part := range c.parts {
			if slices.ContainsFunc(names(&all[i]), func(name string) bool { return strings.Contains(name, part) }) {
				wanted, c.found[k] = true, true
			}
		}
		if wanted {
			some = append(some, all[i])
		}
	}
	return some
}

// verdict complains about the first part that nothing has in its name.
func (c *chooser) verdict(flag string) error {
	for i, part := range c.parts {
		if !c.found[i] {
			return fmt.Errorf("%s: nothing is called %q; run `weft sim --quick` to see the names there are", flag, part)
		}
	}
	return nil
}
