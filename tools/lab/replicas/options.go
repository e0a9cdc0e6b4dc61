package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// runCommand is the flags of a run.
type runCommand struct {
	Weft    string   `default:"bin/weft" type:"existingfile" help:"The Weft program that is measured."`
	Deploy  string   `default:"deploy" help:"The folder of the files for Envoy and HAProxy." placeholder:"FOLDER"`
	Envoy   string   `help:"The program of Envoy; empty: what goes through it is skipped." placeholder:"FILE"`
	Haproxy string   `name:"haproxy" help:"The program of HAProxy; empty: what goes through it is skipped." placeholder:"FILE"`
	Quick   bool     `help:"A rough answer within about two minutes: fewer calls and fewer policies."`
	Rounds  int      `help:"How often balancing is measured (3, with --quick 1)." placeholder:"N"`
	Slow    int      `help:"By what the devices are slower than 16 ms and 1 ms a row, so that the processors are not what is measured. 0: 4 with fewer than four processors, 2 with fewer than eight, otherwise 1." placeholder:"N"`
	Only    []string `help:"Only these parts: balance, rolling, kill, episodes, ring." placeholder:"PART"`
	Cells   []string `help:"Only these cells of balancing: slow, shared, equal." placeholder:"CELL"`
	Ways    []string `help:"Only these policies of balancing, by parts of their names, and always round robin." placeholder:"POLICY"`
	Out     string   `help:"Write the tables into this file too, as Markdown; a quick run writes none." placeholder:"FILE"`
}

// effort is how much is measured.
type effort struct {
	rounds       int
	settle, span time.Duration // of a load that is balanced, before it counts and while it does
	calls        int           // of each kind, while servers are replaced
	late         []time.Duration
	lameDuck     time.Duration // of the servers that are replaced; 0: the server's default
	episodes     int
}

func (c *runCommand) effort() effort {
	e := effort{
		rounds: 3, settle: 6 * time.Second, span: 20 * time.Second, calls: 20_000,
		late: []time.Duration{0, time.Second, 5 * time.Second}, episodes: 100_000,
	}
	if c.Quick {
		e = effort{
			rounds: 1, settle: 5 * time.Second, span: 8 * time.Second, calls: 1500,
			late: []time.Duration{time.Second}, lameDuck: 2 * time.Second, episodes: 5000,
		}
	}
	e.rounds = cmp.Or(c.Rounds, e.rounds)
	return e
}

const (
	balancePart  = "balance"
	rollingPart  = "rolling"
	killPart     = "kill"
	episodesPart = "episodes"
	ringPart     = "ring"
)

// parts are what a run is made of.
var parts = []struct {
	name    string
	measure func(*trial) error
}{
	{balancePart, (*trial).balance},
	{rollingPart, (*trial).rolling},
	{killPart, (*trial).kill},
	{episodesPart, (*trial).episodes},
	{ringPart, (*trial).ring},
}

func (c *runCommand) wants(part string) bool {
	return len(c.Only) == 0 || slices.Contains(c.Only, part)
}

// Validate is called by the parser of the command line.
func (c *runCommand) Validate() error {
	for _, name := range c.Only {
		if !slices.Contains([]string{balancePart, rollingPart, killPart, episodesPart, ringPart}, name) {
			return fmt.Errorf("--only %s: expected some of balance, rolling, kill, episodes, ring", name)
		}
	}
	for _, name := range c.Cells {
		if !slices.ContainsFunc(cells, func(c cell) bool { return c.name == name }) {
			return fmt.Errorf("--cells %s: expected some of slow, shared, equal", name)
		}
	}
	if c.Rounds < 0 || c.Slow < 0 {
		return fmt.Errorf("--rounds %d --slow %d: expected 0 or more", c.Rounds, c.Slow)
	}
	if c.Slow == 0 {
		c.Slow = slowBy(runtime.NumCPU())
	}
	return nil
}

// slowBy is by what devices are slowed so that so many processors carry five servers and their callers.
func slowBy(cpus int) int {
	switch {
	case cpus < 4:
		return 4
	case cpus < 8:
		return 2
	default:
		return 1
	}
}

// picks reports whether a policy is measured. Round robin is: others are judged by it.
func (c *runCommand) picks(p policy) bool {
	switch {
	case p.through == envoyName && c.Envoy == "", p.through == haproxyName && c.Haproxy == "":
		return false
	case p.name == roundRobin:
		return true
	case len(c.Ways) > 0:
		return slices.ContainsFunc(c.Ways, func(w string) bool { return strings.Contains(p.name, w) })
	default:
		return !c.Quick || p.quick
	}
}

// wantsCell reports whether a cell of balancing is measured.
func (c *runCommand) wantsCell(name string) bool {
	if len(c.Cells) > 0 {
		return slices.Contains(c.Cells, name)
	}
	return !c.Quick || name == cells[0].name
}
