package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// usualPorts are those of a server without flags, so that commands need none either.
var usualPorts = [3]string{"127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002"}

// server is a server that runs as a process of its own.
type server struct {
	*harness.Server

	usual bool // the ports are
	weft  string
}

// serve starts a server, and returns when its models are ready. It runs one batch at a time, as a GPU does: so it shows
// how models share a device.
func serve(ctx context.Context, o *options, folder string) (*server, error) {
	args := harness.Serve(filepath.Join(folder, "models"), "--devices=cpu:1",
		"--state-dir="+filepath.Join(folder, "state"))
	usual := o.ports == "usual" && unused(usualPorts[:])
	if usual {
		args = append(args, "--listen="+usualPorts[0], "--http="+usualPorts[1], "--admin-listen="+usualPorts[2])
	}
	// Ctrl-C is for this program, which stops the server in order.
	s, err := harness.Start(ctx, harness.Options{
		Program: o.weft, Args: args, Log: filepath.Join(folder, "server.log"), Apart: true, Stop: 15 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (`make build` builds %s)", err, o.weft)
	}
	return &server{s, usual, o.weft}, nil
}

// unused reports whether nobody listens on the addresses.
func unused(addresses []string) bool {
	for _, a := range addresses {
		l, err := net.Listen("tcp", a) //nolint:noctx // it neither waits nor resolves names
		if err != nil {
			return false
		}
		_ = l.Close() // it served nothing
	}
	return true
}
