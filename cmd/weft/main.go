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
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/app"
	"github.com/weftserve/weft/internal/ask"
)

// commandLine is the commands and their flags.
type commandLine struct {
	Serve      serveCommand      `cmd:"" group:"Serve:" help:"Serve the models of one or more repositories." example:"weft serve models --devices cpu,cuda"`
	Check      checkCommand      `cmd:"" group:"Serve:" help:"Check settings and models, and print how versions are served." example:"weft check models"`
	Seal       sealCommand       `cmd:"" group:"Serve:" help:"Write a SHA256SUMS file for each version." example:"weft seal models"`
	Setup      setupCommand      `cmd:"" group:"Serve:" help:"Download the ONNX Runtime library for your user." example:"weft setup"`
	Place      placeCommand      `cmd:"" group:"Serve:" help:"Print which replica of a roster has which models." example:"weft place models --roster roster.yaml"`
	Predict    predictCommand    `cmd:"" group:"Ask a server:" help:"Send one prediction request." example:"weft predict cartpole --input observation='[[0, 0.1, 0.05, -0.2]]'"`
	Models     ask.Models        `cmd:"" group:"Ask a server:" help:"List models with their versions, labels and traffic." example:"weft models cartpole"`
	Top        topCommand        `cmd:"" group:"Ask a server:" help:"Watch who uses the devices, who waits, and who is late." example:"weft top"`
	Explain    explainCommand    `cmd:"" group:"Ask a server:" help:"Explain why a request was late or failed." example:"weft explain robot-7/step-123"`
	Bench      benchCommand      `cmd:"" group:"Ask a server:" help:"Send load and measure the answers." example:"weft bench cartpole --callers 64"`
	Replay     replayCommand     `cmd:"" group:"Ask a server:" help:"Send recorded requests to another version and compare the answers." example:"weft replay recordings --target 127.0.0.1:9000 --version 3"`
	Push       pushCommand       `cmd:"" group:"Change what is served:" help:"Upload a version of a model." example:"weft push policy.onnx --model cartpole --label candidate"`
	Load       ask.Load          `cmd:"" group:"Change what is served:" help:"Load a version that the policy does not select." example:"weft load cartpole 3"`
	Unload     ask.Unload        `cmd:"" group:"Change what is served:" help:"Unload a version." example:"weft unload cartpole 3"`
	Label      ask.MoveLabel     `cmd:"" group:"Change what is served:" help:"Move or remove a label." example:"weft label cartpole stable 3"`
	Traffic    ask.Traffic       `cmd:"" group:"Change what is served:" help:"Show or set how requests are divided among versions." example:"weft traffic cartpole 2=90 3=10 --shadow 4=100"`
	Rollout    rolloutCommand    `cmd:"" group:"Change what is served:" help:"Show and control the rollout of a version."`
	Token      tokenCommand      `cmd:"" group:"Tools:" help:"Print a token, and to standard error its line for the tokens file." example:"weft token robot-7"`
	Service    serviceCommand    `cmd:"" name:"serviceconfig" group:"Tools:" help:"Print a gRPC service config for clients of several servers." example:"weft serviceconfig wrr"`
	Sim        simCommand        `cmd:"" group:"Tools:" help:"Replay a scheduler trace and report the first difference." example:"weft sim --replay trace.bin"`
	Completion completionCommand `cmd:"" group:"Tools:" help:"Print a completion script for your shell." example:"weft completion bash"`
	Version    versionCommand    `cmd:"" group:"Tools:" help:"Print the version of this program." example:"weft version --json"`
	Complete   completeCommand   `cmd:"" hidden:""`
	Worker     workerCommand     `cmd:"" hidden:""`
}

const description = `Serve many ONNX models on one machine, and share its devices fairly among them.

A repository is a directory with <model>/<version>/model.onnx, and optionally <model>/model.yaml or config.pbtxt.

The exit status is 2 for a wrong command line or wrong settings, and 1 if a command fails.`

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
	parser, err := kong.New(line,
		kong.Name("weft"), kong.Description(description), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Configuration(loadSettings), kong.Writers(s.out, s.err), kong.Bind(s),
		kong.BindTo(app.Printable(s.out), (*io.Writer)(nil)), kong.BindToProvider(interruptible),
	)
	if err != nil {
		return nil, err
	}
	for _, command := range parser.Model.Leaves(true) {
		if example := command.Tag.Get("example"); example != "" {
			command.Detail = strings.TrimSpace("For example: " + example + "\n\n" + command.Detail)
		}
	}
	return parser, nil
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
	Name string `arg:"" help:"Name of the token; the access file calls it token:NAME."`
}

// Run makes a token and prints it.
func (c *tokenCommand) Run(s streams) error { return app.Token(c.Name, s.out, s.err) }

// workerCommand is `weft worker`. A server starts this program with it to run models in another process; people do not.
type workerCommand struct {
	Library string `arg:"" help:"The ONNX Runtime shared library."`
}

// Run runs models until the server ends it or is gone.
func (c *workerCommand) Run() error { return app.Work(c.Library) }
