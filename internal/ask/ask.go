// Package ask has a running server answer one request, which was written by hand: `weft predict`.
package ask

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/weftclient"
)

// Options are the flags.
type Options struct {
	Model   string          `arg:"" help:"Name of the model."`
	Input   []string        `sep:"none" placeholder:"NAME=JSON" help:"An input of the model: numbers, texts (in quotation marks) or true and false, in as many nested lists as it has dimensions. NAME=@FILE reads the JSON from a file, NAME=@- from the standard input; a model with one input needs no NAME=. Repeat it for each input."`
	Output  []string        `placeholder:"NAME" help:"Return only these outputs."`
	Version int64           `xor:"choice" placeholder:"N" help:"Ask this version. Without it and --label, the model's traffic decides, or else the newest that is ready answers."`
	Label   string          `xor:"choice" placeholder:"NAME" help:"Ask the version with this label."`
	Episode string          `placeholder:"NAME" help:"The episode that the request belongs to: all its requests go to one version."`
	Timeout config.Duration `default:"10s" help:"How long to wait for an answer."`
	JSON    bool            `name:"json" help:"Print the answer as JSON."`
	Address string          `default:"127.0.0.1:9000" placeholder:"HOST:PORT" help:"The server's address, or unix:/PATH."`

	certs.Client `embed:"" group:"TLS"`
}

func (o *Options) check() error {
	var faults config.Faults
	if o.Timeout <= 0 {
		faults.Addf("--timeout", "expected a duration above 0, found %v", o.Timeout)
	}
	if o.Version < 0 {
		faults.Addf("--version", "expected a positive number, found %d", o.Version)
	}
	return faults.Err()
}

func (o *Options) model() *weftclient.ModelSpec {
	switch {
	case o.Version > 0:
		return weftclient.Version(o.Model, o.Version)
	case o.Label != "":
		return weftclient.Label(o.Model, o.Label)
	}
	return weftclient.Model(o.Model)
}

// Run asks and prints the answer. What is wrong with the command line is a config.Faults.
func Run(ctx context.Context, o *Options, in io.Reader, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	dial, err := o.DialOptions(o.Address)
	if err != nil {
		return err
	}
	client, err := weftclient.New(o.Address, weftclient.WithDialOptions(dial...),
		weftclient.WithMaxMessageBytes(math.MaxInt32))
	if err != nil {
		return fmt.Errorf("--address %s: %w", o.Address, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.Timeout))
	defer cancel()

	var server peer.Peer
	about, err := client.Metadata(ctx, o.model(), grpc.Peer(&server))
	if err != nil {
		return o.explain(err, &server)
	}
	inputs, err := o.inputs(about, in)
	if err != nil {
		return err
	}
	answer, err := client.Predict(ctx, &weftclient.Request{
		Model: o.model(), Inputs: inputs, Outputs: o.Output, Episode: o.Episode,
	}, grpc.Peer(&server))
	if err != nil {
		return o.explain(err, &server)
	}
	return o.print(out, answer, about.GetSignature().GetOutputs())
}

// explain says what the user can do about the error of a call.
func (o *Options) explain(err error, server *peer.Peer) error {
	message := strings.TrimSpace(status.Convert(err).Message())
	if server.Addr != nil {
		return fmt.Errorf("the server at --address %s: %s", o.Address, message)
	}
	do := certs.Advice(message)
	if do == "" {
		do = "start one with `weft serve REPOSITORY`, or name the --listen address of one that runs"
	}
	return fmt.Errorf("no server answers at --address %s (%s); %s", o.Address, message, do)
}
