// Package ask has the commands that ask a running server one question: `weft predict` sends a request written by hand,
// and `weft explain` tells what happened to a request. Both print text for people, or JSON for programs.
//
// It also has what other commands share with them: the flags by which a command finds a server and the advice when the
// server does not answer (Server), and how a server's lists of requests are read (Request, At).
package ask

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// Options are the flags.
type Options struct {
	Model   string          `arg:"" help:"Name of the model."`
	Input   []string        `sep:"none" placeholder:"NAME=JSON" help:"An input as nested JSON lists of numbers, texts, true or false. NAME=@FILE reads a file, NAME=@- standard input. Repeat it for each input; without NAME= the model must have one input."`
	Output  []string        `placeholder:"NAME" help:"Return only these outputs."`
	Version *int64          `xor:"choice" placeholder:"N" help:"Ask this version. By default traffic decides, or the newest ready version answers."`
	Label   *string         `xor:"choice" placeholder:"NAME" help:"Ask the version with this label."`
	Episode string          `placeholder:"NAME" help:"The episode of the request, which may leave out inputs that the server keeps."`
	Begin   bool            `help:"Begin the episode, from the initial state of the model, if it has state."`
	Step    uint64          `placeholder:"N" help:"The number of this step, from 1. If the model has state, repeating the latest number returns the same answer without running the model."`
	End     bool            `help:"End the episode with this request."`
	Timeout config.Duration `default:"10s" help:"How long to wait for an answer."`
	JSON    bool            `name:"json" help:"Print the answer as JSON."`

	Server
}

// check finds all mistakes in the flags, before a server is asked.
func (o *Options) check() error {
	var faults config.Faults
	if o.Timeout <= 0 {
		faults.Addf("--timeout", "expected a duration above 0, found %v", o.Timeout)
	}
	if o.Version != nil && *o.Version < 1 {
		faults.Addf("--version", "expected a positive number, found %d", *o.Version)
	}
	if o.Label != nil && *o.Label == "" {
		faults.Addf("--label", "expected the label of a version, found nothing")
	}
	if slices.Contains(o.Output, "") {
		faults.Addf("--output", "expected the name of an output, found nothing")
	}
	if o.Episode == "" && (o.Begin || o.Step > 0 || o.End) {
		faults.Addf("--episode", "expected the name of the episode to which --begin, --step and --end belong, found nothing")
	}
	return faults.Err()
}

// model names the version to ask. The parser of flags takes only one of --version and --label.
func (o *Options) model() *weftclient.ModelSpec {
	switch {
	case o.Version != nil:
		return weftclient.Version(o.Model, *o.Version)
	case o.Label != nil:
		return weftclient.Label(o.Model, *o.Label)
	}
	return weftclient.Model(o.Model)
}

// Run asks and prints the answer. It makes two calls: one for the signature, by which it reads the inputs, and one for
// the prediction. Each has the whole timeout, since reading inputs from a terminal may take long. Mistakes in the
// command line are returned as config.Faults.
func Run(ctx context.Context, o *Options, in io.Reader, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	client, err := o.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	var server peer.Peer
	var about *weftv1.GetModelMetadataResponse
	// The signature comes first. Without it neither the types nor the names of the inputs are known.
	err = o.within(ctx, func(ctx context.Context) (err error) {
		about, err = client.Metadata(ctx, o.model(), grpc.Peer(&server))
		return err
	})
	if err != nil {
		return o.explain(ctx, err, &server)
	}
	var kept []*weftv1.KeptInput
	if o.Episode == "" && len(o.Input) < len(about.GetSignature().GetInputs()) {
		kept = o.kept(ctx, client, about.GetModel())
	}
	inputs, err := o.read(ctx, about, kept, in)
	if err != nil {
		return err
	}
	var answer *weftclient.Answer
	err = o.within(ctx, func(ctx context.Context) (err error) {
		answer, err = client.Predict(ctx, &weftclient.Request{
			Model: o.model(), Inputs: inputs, Outputs: o.Output, Episode: o.Episode, BeginEpisode: o.Begin, Step: o.Step,
			EndOfEpisode: o.End,
		}, grpc.Peer(&server))
		return err
	})
	if err != nil {
		return o.explain(ctx, err, &server)
	}
	// The signature orders the outputs. Another version may have answered meanwhile; outputs that it adds are in the JSON
	// only.
	return o.print(out, answer, about.GetSignature().GetOutputs())
}

// within makes a call, and gives it up after --timeout.
func (o *Options) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.Timeout))
	defer cancel()
	return call(ctx)
}

// kept returns which inputs the server keeps in episodes. They are for a hint only: without an answer there is none.
func (o *Options) kept(ctx context.Context, client *weftclient.Client, of *weftv1.ModelSpec) []*weftv1.KeptInput {
	var answer *weftv1.GetModelResponse
	_ = o.within(ctx, func(ctx context.Context) (err error) {
		answer, err = weftv1.NewModelServiceClient(client.Conn()).GetModel(ctx, &weftv1.GetModelRequest{Name: of.GetName()})
		return err
	})
	return versionOf(answer.GetModel(), of.GetVersion()).GetKeptInputs()
}

// errInterrupted ends the command after a signal, which cancels its context.
var errInterrupted = errors.New("interrupted before there was an answer")

// read reads the inputs until ctx ends: a terminal or a pipe may never give them. The goroutine that reads then stays
// behind, and ends with the process.
func (o *Options) read(
	ctx context.Context, about *weftv1.GetModelMetadataResponse, kept []*weftv1.KeptInput, in io.Reader,
) (inputs weftclient.Tensors, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		inputs, err = o.inputs(about, kept, in)
	}()
	// inputs and err are read only after the goroutine has closed done.
	select {
	case <-done:
		return inputs, err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

// explain says what the user can do about the error of a call.
func (o *Options) explain(ctx context.Context, err error, server *peer.Peer) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return o.Wrong(err, server, o.Timeout)
}
