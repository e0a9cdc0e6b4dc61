package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/tools/lab/affinity"
)

// runCommand is the flags of a run.
type runCommand struct {
	Weft     string   `default:"bin/weft" type:"existingfile" help:"The Weft program that is measured, and puts the load on."`
	Baseline string   `type:"existingfile" help:"Another Weft program, measured in turn with the first." placeholder:"FILE"`
	Quick    bool     `help:"A rough answer within two minutes: one round, one placement, short runs."`
	Rounds   int      `help:"How often everything is measured (6, with --quick 1)." placeholder:"N"`
	Only     []string `help:"Only these parts: wire, policy, network, lone, part, refusal, overload, recovery." placeholder:"PART"`
	Places   []string `help:"Only these placements of server and client: 1-core, 2-cores, shared." placeholder:"PLACE"`
	Flags    []string `name:"serve-flag" sep:"none" help:"A further flag of weft serve, such as --serve-flag=--devices=cpu:2." placeholder:"FLAG"`
	Out      string   `help:"Write the tables into this file too, as Markdown; a quick run writes none." placeholder:"FILE"`
}

// effort is how long the runs of a command are.
type effort struct {
	rounds, places      int
	warmup, span        time.Duration // of a run
	engine              time.Duration // of each batch size
	multiples           []float64     // of the capacity
	before, slow, after time.Duration // of a slowdown
}

func (c *runCommand) effort() effort {
	e := effort{
		rounds: 6, places: 3, warmup: time.Second, span: 3 * time.Second, engine: 300 * time.Millisecond,
		multiples: []float64{0.5, 1, 1.5, 2, 5, 10},
		before:    3 * time.Second, slow: 10 * time.Second, after: 12 * time.Second,
	}
	if c.Quick {
		e = effort{
			rounds: 1, places: 1, warmup: 300 * time.Millisecond, span: time.Second, engine: 100 * time.Millisecond,
			multiples: []float64{1, 2, 10},
			before:    2 * time.Second, slow: 4 * time.Second, after: 6 * time.Second,
		}
	}
	if c.Rounds > 0 {
		e.rounds = c.Rounds
	}
	return e
}

const (
	overloadPart = "overload"
	recoveryPart = "recovery"
)

// parts are what a round is made of.
var parts = []struct {
	name  string
	scene func(*round) error
}{
	{"wire", (*round).wire},
	{"policy", (*round).policy},
	{"network", (*round).network},
	{"lone", (*round).lone},
	{"part", (*round).part},
	{"refusal", (*round).refusal},
	{overloadPart, (*round).overload},
	{recoveryPart, (*round).recovery},
}

func (c *runCommand) wants(part string) bool {
	return len(c.Only) == 0 || slices.Contains(c.Only, part)
}

// Validate is called by the parser of the command line.
func (c *runCommand) Validate() error {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	for _, name := range c.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--only %s: expected some of %s", name, strings.Join(names, ", "))
		}
	}
	if c.Rounds < 0 {
		return fmt.Errorf("--rounds %d: expected 1 or more", c.Rounds)
	}
	return nil
}

// places returns where server and client run.
func (c *runCommand) places(e effort) ([]place, error) {
	cpus, err := affinity.Own()
	if err != nil {
		return nil, err
	}
	all := placesOn(cpus)
	if len(c.Places) == 0 {
		return all[:min(len(all), e.places)], nil
	}
	var chosen []place
	for _, name := range c.Places {
		i := slices.IndexFunc(all, func(p place) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--places %s: with %d processors there are %s", name, len(cpus), namesOf(all))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
