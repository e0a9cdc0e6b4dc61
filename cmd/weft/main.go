// Command weft serves machine learning models over gRPC, and checks model repositories.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/ask"
)

// commandLine is the commands and their flags.
type commandLine struct {
	Serve      serveCommand      `cmd:"" help:"Serve the models of one or more repositories."`
	Check      checkCommand      `cmd:"" help:"Print the settings, how each version is served, and every fault."`
	Place      placeCommand      `cmd:"" help:"Print which replica of a roster has which models."`
	Setup      setupCommand      `cmd:"" help:"Fetch the ONNX Runtime library for the user who runs this."`
	Seal       sealCommand       `cmd:"" help:"Write the SHA-256 of each version's files into the repositories."`
	Sim        simCommand        `cmd:"" help:"Have the scheduler decide a recorded trace again, and report the first difference."`
	Predict    predictCommand    `cmd:"" help:"Ask a running server for one prediction."`
	Bench      benchCommand      `cmd:"" help:"Put load on a running server, and measure how it answers."`
	Replay     replayCommand     `cmd:"" help:"Send recorded requests to another version, and compare the answers."`
	Models     ask.Models        `cmd:"" help:"List the models of a running server: versions, labels, traffic."`
	Push       pushCommand       `cmd:"" help:"Upload a version of a model to a running server."`
	Load       ask.Load          `cmd:"" help:"Load a version that the policy does not select on a running server."`
	Unload     ask.Unload        `cmd:"" help:"Unload a version on a running server."`
	Label      ask.MoveLabel     `cmd:"" help:"Move a label to another version on a running server, or remove it."`
	Traffic    ask.Traffic       `cmd:"" help:"Show or set how a model's requests are divided on a running server."`
	Rollout    rolloutCommand    `cmd:"" help:"Show and drive the rollout of a version on a running server."`
	Top        topCommand        `cmd:"" help:"Show a running server at work: who has the devices, who waits, who is late."`
	Explain    explainCommand    `cmd:"" help:"Tell why a request was late or not answered, or list the latest."`
	Service    serviceCommand    `cmd:"" name:"serviceconfig" help:"Print the gRPC service config for clients of several servers."`
	Token      tokenCommand      `cmd:"" help:"Make a token for a caller, and the line of it for the tokens file."`
	Completion completionCommand `cmd:"" help:"Print what makes a shell complete the words of this program."`
	Complete   completeCommand   `cmd:"" hidden:""`
	Worker     workerCommand     `cmd:"" hidden:""`
	Version    versionCommand    `cmd:"" help:"Print the version of this program."`
}

const description = `A gRPC model server that shares each device fairly among many models and versions.

A repository is a directory of <model>/<version>/model.onnx and, optionally, <model>/model.yaml or config.pbtxt.

The exit status is 2 for a command line or settings that are wrong, and 1 where a command fails.`

// Exit statuses.
const (
	statusFailed = 1 // the command failed
	statusUsage  = 2 // the command line or a settings file is wrong by itself
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run carries out a command line and returns the exit status. It is main without the process, for tests.
func run(args []string, stdout, stderr io.Writer) int {
	var line commandLine
	parser, err := newParser(&line, streams{out: stdout, err: stderr, args: args})
	if err != nil {
		return fail(stderr, err, statusFailed)
	}
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"} // no flag of the program: commands have one of that name
	}
	command, err := parser.Parse(args)
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		node := wrong.Context.Selected()
		err = advise(err, parser.Model.Children[0], node, args)
		// The advice comes after the error: fail prints before the deferred calls run.
		if node != nil {
			defer fmt.Fprintf(stderr, "Run \"%s --help\" for help.\n", node.FullPath())
		} else {
			defer fmt.Fprintln(stderr, `Run "weft --help" for help.`)
		}
	}
	if err != nil {
		return fail(stderr, err, statusUsage)
	}
	if err := command.Run(); err != nil {
		return fail(stderr, err, statusOf(err))
	}
	return 0
}

// newParser returns a parser of command lines, and of the settings file that --config names. Commands get s as an
// argument of Run.
func newParser(line *commandLine, s streams) (*kong.Kong, error) {
	return kong.New(line,
		kong.Name("weft"), kong.Description(description), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Configuration(loadSettings), kong.Writers(s.out, s.err), kong.Bind(s),
		kong.BindTo(app.Printable(s.out), (*io.Writer)(nil)), kong.BindToProvider(interruptible),
	)
}

// interruptible returns the context of a command that ends with a signal. A second signal ends the program.
func interruptible() (context.Context, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, nil
}

// streams are where a command writes its result (out) and everything else (err), and the words of its command line
// (args), which a reload parses again.
type streams struct {
	out, err io.Writer
	args     []string
}

// fail prints an error, which may quote texts of others, and returns the status.
func fail(stderr io.Writer, err error, status int) int {
	fmt.Fprintf(app.Printable(stderr), "weft: %v\n", err)
	return status
}

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

// tokenCommand is `weft token`.
type tokenCommand struct {
	Name string `arg:"" help:"Name of the token, as token:NAME in the access file has it."`
}

// Run makes a token and prints it.
func (c *tokenCommand) Run(s streams) error { return app.Token(c.Name, s.out, s.err) }

// workerCommand is `weft worker`. A server starts this program with it to run models in another process; people do not.
type workerCommand struct {
	Library string `arg:"" help:"The ONNX Runtime shared library."`
}

// Run runs models until the server ends it or is gone.
func (c *workerCommand) Run() error { return app.Work(c.Library) }
