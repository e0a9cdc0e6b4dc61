package main

import (
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/progress"
)

// openMirror copies repositories that lie elsewhere; nil but in a binary of `-tags cloud`.
var openMirror app.OpenMirror

// serveCommand is `weft serve`.
type serveCommand struct{ app.Settings }

// Help is what --help says besides.
func (serveCommand) Help() string {
	return `SIGTERM or Ctrl-C ends the server once accepted requests are done, within --drain-timeout. At SIGHUP it reads the
settings file, the access file, the certificates and the repositories again.`
}

// Run serves until a signal or a failed part ends it. Only a server tunes the collector: other commands are short.
func (c *serveCommand) Run(s streams) error {
	app.TuneCollector()
	c.OpenMirror = openMirror
	server := app.App{Settings: c.Settings, Reread: func() (*app.Settings, error) { return readSettings(s.args) }}
	// A person names a model, and programs a repository.
	if progress.Terminal(s.out) || slices.ContainsFunc(c.Repositories, app.NamesModel) {
		server.Hints, server.Program = s.out, calledAs()
	}
	return server.Run(s.err)
}

// calledAs returns how a shell calls this program: by its name, or as it was called if it is not on the PATH.
func calledAs() string {
	if _, err := exec.LookPath("weft"); err != nil {
		return os.Args[0]
	}
	return "weft"
}

// readSettings reads the settings of a server again, from the same command line and the file that it names. The error
// is that of a start with them, so that a reload never puts faulty settings in force.
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

// placeCommand is `weft place`.
type placeCommand struct {
	app.Settings
	List    bool   `name:"list" help:"Print the models of each replica as YAML."`
	Envoy   string `name:"envoy" placeholder:"FILE" help:"Write a cluster for Envoy's cds_config."`
	Address string `name:"address" default:"NAME:9000" help:"Address of replicas without one in the roster; NAME is the replica's name."`
}

// Run prints the tables. The exit status is 1 if a model has too few copies, or something cannot be read.
func (c *placeCommand) Run(s streams) error {
	c.OpenMirror = openMirror
	return app.Place(&c.Settings, app.Placing{Envoy: c.Envoy, Address: c.Address, List: c.List}, s.out, s.err)
}

// checkCommand is `weft check`.
type checkCommand struct {
	app.Settings
	NoLoad bool `name:"no-load" help:"Only read the repositories; do not load models."`
	JSON   bool `name:"json" help:"Print the findings as JSON."`
}

// Run checks. The exit status is 1 for a fault, and 2 if the settings are wrong by themselves.
func (c *checkCommand) Run(s streams) error {
	c.OpenMirror = openMirror
	return app.Check(&c.Settings, app.Checking{Load: !c.NoLoad, JSON: c.JSON}, s.out, s.err)
}
