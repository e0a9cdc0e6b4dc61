package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// runCommand is the flags of a run.
type runCommand struct {
	Weft        string   `default:"bin/weft" type:"existingfile" help:"The Weft program that is attacked."`
	List        bool     `help:"List the attacks, and end."`
	Only        []string `help:"Only these attacks; --list names them." placeholder:"NAME"`
	Quick       bool     `help:"A rough answer: one round of three seconds each."`
	Rounds      int      `help:"How often each attack and its control are measured (3, with --quick 1)." placeholder:"N"`
	Connections int      `default:"64" help:"Connections of the attacker, where the attack is not about their number."`
	Rate        float64  `help:"Operations a second, over all connections, instead of what --list says." placeholder:"N"`
	Budget      int      `default:"256" help:"MiB that the server may take for strangers, besides 64 MiB of slack." placeholder:"MIB"`
	Most        int      `default:"4096" help:"MiB of the server at which an attack is broken off." placeholder:"MIB"`
	Seed        uint64   `default:"1" help:"Of what attacks draw."`
	Flags       []string `name:"serve-flag" sep:"none" help:"A further flag of weft serve, such as --serve-flag=--isolation=none." placeholder:"FLAG"`
	Out         string   `help:"Write the tables into this file too, as Markdown; a quick run writes none." placeholder:"FILE"`
}

// effort is how long the parts of a round take.
type effort struct {
	rounds     int
	idle, span time.Duration
	after      time.Duration // within which a server must have recovered
}

func (c *runCommand) effort() effort {
	e := effort{rounds: 3, idle: 2 * time.Second, span: 6 * time.Second, after: 5 * time.Second}
	if c.Quick {
		e = effort{rounds: 1, idle: time.Second, span: 3 * time.Second, after: 5 * time.Second}
	}
	e.rounds = cmp.Or(c.Rounds, e.rounds)
	return e
}

// Validate is called by the parser of the command line.
func (c *runCommand) Validate() error {
	for _, name := range c.Only {
		if find(name) == nil {
			return fmt.Errorf("--only %s: there is no such attack; expected some of %s", name, strings.Join(names(), ", "))
		}
	}
	if c.Rounds < 0 || c.Rate < 0 || c.Connections < 1 || c.Connections > 4096 || c.Budget < 0 || c.Most < 1 {
		return fmt.Errorf("--rounds %d --rate %v --connections %d --budget %d --most %d: expected 1 round or more, a rate "+
			"above 0, 1 to 4096 connections, a budget of 0 or more, and 1 or more for --most",
			c.Rounds, c.Rate, c.Connections, c.Budget, c.Most)
	}
	return nil
}

// chosen returns the attacks of the run.
func (c *runCommand) chosen() []*attack {
	var all []*attack
	for i := range attacks {
		if len(c.Only) == 0 || slices.Contains(c.Only, attacks[i].name) {
			all = append(all, &attacks[i])
		}
	}
	return all
}
