package main

import (
	"encoding/json"
	"fmt"

	"github.com/weftserve/weft/internal/app"
)

// versionCommand is `weft version`.
type versionCommand struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Run prints the version.
func (c versionCommand) Run(s streams) error {
	build := app.ReadBuild()
	if c.JSON {
		return json.NewEncoder(s.out).Encode(build)
	}
	_, err := fmt.Fprintln(s.out, build)
	return err
}
