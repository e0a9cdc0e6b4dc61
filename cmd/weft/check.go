package main

import "github.com/weftserve/weft/internal/app"

// checkCommand is `weft check`.
type checkCommand struct {
	app.Settings
	NoLoad bool `name:"no-load" help:"Only read the repositories; do not load models, nor prove whether they can be batched."`
	JSON   bool `name:"json" help:"Print what was found as JSON, faults included, instead of text."`
}

// Run checks.
func (c *checkCommand) Run(s streams) error {
	return app.Check(&c.Settings, app.Checking{Load: !c.NoLoad, JSON: c.JSON}, s.out, s.err)
}
