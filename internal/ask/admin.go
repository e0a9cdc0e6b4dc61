package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Admin is the flags by which a command finds the address where a server takes changes.
type Admin struct {
	Address string `name:"admin" aliases:"server" default:"127.0.0.1:9002" placeholder:"HOST:PORT" help:"The server's admin address, or unix:/PATH."`

	certs.Client `embed:"" group:"TLS"`
}

// Call connects, and has call ask the server. The error names the address. It tells a server that cannot be reached
// from one that refuses.
func (a *Admin) Call(ctx context.Context, call func(context.Context, *grpc.ClientConn) error) error {
	options, err := a.DialOptions(a.Address)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(a.Address, options...)
	if err != nil {
		return fmt.Errorf("--admin %s: %w", a.Address, err)
	}
	defer conn.Close()
	if err = call(ctx, conn); err == nil {
		return nil
	}
	message := status.Convert(err).Message()
	// The code of the answer does not tell: a server that drains says UNAVAILABLE, too.
	switch state := conn.GetState(); {
	case state == connectivity.TransientFailure || state == connectivity.Connecting:
		if advice := certs.Advice(message); advice != "" {
			return fmt.Errorf("no connection to --admin %s (%s); %s", a.Address, message, advice)
		}
		return fmt.Errorf("no server answers at --admin %s (%s); name the --admin-listen address of one that runs",
			a.Address, message)
	case errors.Is(ctx.Err(), context.Canceled): // its cause names the signal
		return errInterrupted
	}
	if _, is := status.FromError(err); !is {
		return err // of the command itself
	}
	return fmt.Errorf("the server at --admin %s: %s", a.Address, message)
}

// Printing is the flag of commands that print the answer of a call.
type Printing struct {
	JSON bool `name:"json" help:"Print the server's answer as JSON."`
}

// print prints a message: as JSON, with the names of its fields as the .proto file has them, or as text. An answer to a
// change that ends with the server says so. Fields of more are added to the JSON.
func (p Printing) print(out io.Writer, m proto.Message, text string, more ...any) error {
	if p.JSON {
		data, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
		if err != nil {
			return err
		}
		var line bytes.Buffer // without the blanks that protojson inserts by chance
		if err := json.Compact(&line, data); err != nil {
			return err
		}
		for _, fields := range more {
			added, err := json.Marshal(fields)
			if err != nil {
				return err
			}
			line.Truncate(line.Len() - 1) // its brace
			line.WriteString("," + string(added[1:]))
		}
		_, err = fmt.Fprintln(out, line.String())
		return err
	}
	if change, is := m.(interface{ GetNotPersistedBecause() string }); is && change.GetNotPersistedBecause() != "" {
		text += "this ends with the server: " + change.GetNotPersistedBecause() + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// checkVersion checks the number of a version.
func checkVersion(number int64) error {
	if number < 1 {
		return config.Faults{{Key: "VERSION", Message: fmt.Sprintf("expected a positive number, found %d", number)}}
	}
	return nil
}

// Load is `weft load`.
type Load struct {
	Model   string `arg:"" help:"Name of the model."`
	Version int64  `arg:"" help:"A version in the repository."`
	Printing
	Admin
}

// Help says what else there is to know.
func (*Load) Help() string {
	return "The command returns when the version is ready, or prints why it is not. The version stays loaded until " +
		"`weft unload` or a change of versions.policy; without a state directory also until a restart."
}

// Run loads the version.
func (c *Load) Run(ctx context.Context, out io.Writer) error {
	if err := checkVersion(c.Version); err != nil {
		return err
	}
	return c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := weftv1.NewAdminServiceClient(conn).LoadVersion(ctx,
			&weftv1.LoadVersionRequest{Model: c.Model, Version: c.Version})
		if err != nil {
			return err
		}
		return c.print(out, answer, fmt.Sprintf("%s: version %d is ready\n", c.Model, c.Version))
	})
}

// Unload is `weft unload`.
type Unload struct {
	Model   string `arg:"" help:"Name of the model."`
	Version int64  `arg:"" help:"A version that neither traffic nor a label names, nor a pipeline as a separate step."`
	Printing
	Admin
}

// Help says what else there is to know.
func (*Unload) Help() string {
	return "The command returns when the last request of the version has ended. The version stays unloaded until " +
		"`weft load` or a change of versions.policy; without a state directory also until a restart."
}

// Run unloads the version.
func (c *Unload) Run(ctx context.Context, out io.Writer) error {
	if err := checkVersion(c.Version); err != nil {
		return err
	}
	return c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := weftv1.NewAdminServiceClient(conn).UnloadVersion(ctx,
			&weftv1.UnloadVersionRequest{Model: c.Model, Version: c.Version})
		if err != nil {
			return err
		}
		return c.print(out, answer, fmt.Sprintf("%s: version %d is unloaded\n", c.Model, c.Version))
	})
}

// MoveLabel is `weft label`.
type MoveLabel struct {
	Model   string `arg:"" help:"Name of the model."`
	Name    string `arg:"" help:"The label, such as stable."`
	Version int64  `arg:"" optional:"" help:"A ready version."`
	Remove  bool   `help:"Remove the label."`
	Printing
	Admin
}

// Run moves or removes the label.
func (c *MoveLabel) Run(ctx context.Context, out io.Writer) error {
	switch {
	case c.Remove && c.Version != 0:
		return config.Faults{{Key: "--remove", Message: "expected either a version or --remove, found both"}}
	case !c.Remove && c.Version == 0:
		return config.Faults{{Key: "VERSION", Message: "expected the version that is to have the label, as in `weft label " +
			"MODEL NAME 2`, or --remove"}}
	case !c.Remove:
		if err := checkVersion(c.Version); err != nil {
			return err
		}
	}
	return c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := weftv1.NewAdminServiceClient(conn).SetLabel(ctx,
			&weftv1.SetLabelRequest{Model: c.Model, Label: c.Name, Version: c.Version})
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s: label %s is on version %d\n", c.Model, c.Name, c.Version)
		if c.Remove {
			text = strings.Replace(text, fmt.Sprintf("on version %d", c.Version), "removed", 1)
		}
		return c.print(out, answer, text)
	})
}
