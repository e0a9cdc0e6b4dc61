package main

import "github.com/weftserve/weft/internal/app"

// tokenCommand is `weft token`.
type tokenCommand struct {
	Name string `arg:"" help:"Name of the token, as token:NAME in the access file has it."`
}

// Run makes a token and prints it.
func (c *tokenCommand) Run(s streams) error { return app.Token(c.Name, s.out) }
