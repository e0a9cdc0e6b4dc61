package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// askMany is a client in a process of its own.
func askMany() {
	address, model := os.Args[1], os.Args[2]
	n, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	input := "x"
	if len(os.Args) > 4 {
		input = os.Args[4]
	}
	conn, err := weftest.Dial(address)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), weftest.Patience)
	defer cancel()
	ended, errs := weftest.Predict(ctx, conn, model, input, n)
	for _, code := range slices.Sorted(maps.Keys(ended)) {
		fmt.Printf("%v: %d\n", code, ended[code])
	}
	for _, err := range errs {
		fmt.Fprintln(os.Stderr, err)
	}
}

func freePort(ts *testscript.TestScript, _ bool, names []string) {
	var held []net.Listener // until all are known, so that they differ
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Setenv(name, l.Addr().String())
		held = append(held, l)
	}
	for _, l := range held {
		l.Close()
	}
}

func sendSignals(ts *testscript.TestScript, _ bool, names []string) {
	signals := map[string]os.Signal{
		"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"KILL": os.Kill,
	}
	all := ts.BackgroundCmds()
	if names[0] == "last" {
		all, names = all[len(all)-1:], names[1:]
	}
	for _, cmd := range all {
		if filepath.Base(cmd.Path) != "weft" || cmd.ProcessState != nil {
			continue
		}
		for _, name := range names {
			ts.Check(cmd.Process.Signal(signals[name]))
		}
	}
}

// awaitFile returns when the file is there, or nobody would wait any longer.
func awaitFile(path string) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(weftest.Patience); time.Now().Before(end); <-again.C {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}

// dial connects to an address, by the certificates of a directory if there is one.
func dial(ts *testscript.TestScript, address string, dir ...string) *grpc.ClientConn {
	conn, err := weftest.Dial(address)
	if len(dir) > 0 || strings.HasPrefix(address, "unix:") {
		var over certs.Client
		if len(dir) > 0 {
			in := ts.MkAbs(dir[0])
			over.CA, over.Cert, over.Key = in+"/ca.pem", in+"/client.pem", in+"/client-key.pem"
			awaitFile(over.Key)
		}
		options, wrong := over.DialOptions(address)
		ts.Check(wrong)
		conn, err = grpc.NewClient(address, append(options, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))...)
	}
	ts.Check(err)
	return conn
}

func serving(ts *testscript.TestScript, _ bool, args []string) {
	conn := dial(ts, args[0], args[1:]...)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), weftest.Patience)
	defer cancel()
	ts.Check(weftest.AwaitHealth(ctx, conn, healthgrpc.HealthCheckResponse_SERVING))
}

// settled waits until all that a server loads at its start is ready or has failed, at its HTTP address.
func settled(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), weftest.Patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond) // nothing tells but asking
	defer again.Stop()
	for {
		if weftest.Settled(ctx, "http://"+args[0]) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			ts.Fatalf("%s is not ready", args[0])
		}
	}
}

func waiting(ts *testscript.TestScript, _ bool, args []string) {
	conn := dial(ts, args[0])
	defer conn.Close()
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), weftest.Patience)
	defer cancel()
	ts.Check(weftest.AwaitQueue(ctx, conn, args[1], n))
}

// awaitState waits until a version has a state.
func awaitState(ts *testscript.TestScript, _ bool, args []string) {
	conn := dial(ts, args[0])
	defer conn.Close()
	number, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), weftest.Patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond) // nothing tells but asking
	defer again.Stop()
	for {
		answer, err := weftv1.NewModelServiceClient(conn).GetModel(ctx, &weftv1.GetModelRequest{Name: args[1]})
		for _, v := range answer.GetModel().GetVersions() {
			if v.GetVersion() == number && v.GetState().String() == "VERSION_STATE_"+args[3] {
				return
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			ts.Fatalf("version %d is not %s: %v, %v", number, args[3], answer, err)
		}
	}
}
