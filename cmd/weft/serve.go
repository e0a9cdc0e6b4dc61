package main

import (
	"io"

	"github.com/weftserve/weft/internal/app"
)

// serveCommand is `weft serve`.
type serveCommand struct{ app.Settings }

// Run serves until a signal or a failed part ends it.
func (c *serveCommand) Run(s streams) error {
	app.TuneCollector()
	server := app.App{Settings: c.Settings, Reread: func() (*app.Settings, error) { return readSettings(s.args) }}
	return server.Run(s.err)
}

// readSettings reads the settings of a server again, as at its start: the command line, and the file that it names.
func readSettings(args []string) (*app.Settings, error) {
	var line commandLine
	parser, err := newParser(&line, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(args); err != nil {
		return nil, err
	}
	return &line.Serve.Settings, line.Serve.Check()
}
