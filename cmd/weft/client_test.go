package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// dial returns a connection that keeps trying until somebody listens.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: patience, // else that of the backoff, which is too short for a busy machine
		}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// request asks a model with one input x of shape [-1, 4].
func request(model string, value float32) *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: model},
		Inputs: map[string]*weftv1.Tensor{"x": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 4}, FloatValues: []float32{value, 2, 3, 4},
		}},
	}
}

// predictAll sends n requests at once and counts how they end.
func predictAll(ctx context.Context, conn *grpc.ClientConn, model string, n int) (map[codes.Code]int, []error) {
	return predictInput(ctx, conn, model, "x", n)
}

// predictInput is predictAll of a model whose input has another name.
func predictInput(ctx context.Context, conn *grpc.ClientConn, model, input string, n int) (map[codes.Code]int, []error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		ended = map[codes.Code]int{}
		errs  []error
	)
	for i := range n {
		wg.Go(func() {
			q := request(model, float32(i))
			q.Inputs = map[string]*weftv1.Tensor{input: q.GetInputs()["x"]}
			_, err := weftv1.NewPredictionServiceClient(conn).Predict(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			ended[status.Code(err)]++
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return ended, errs
}

// predictCommand is a client in a process of its own.
func predictCommand() {
	address, model := os.Args[1], os.Args[2]
	n, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	input := "x"
	if len(os.Args) > 4 {
		input = os.Args[4]
	}
	conn, err := dial(address)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended, errs := predictInput(ctx, conn, model, input, n)
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
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": os.Kill}
	for _, cmd := range ts.BackgroundCmds() {
		if filepath.Base(cmd.Path) != "weft" || cmd.ProcessState != nil {
			continue
		}
		for _, name := range names {
			ts.Check(cmd.Process.Signal(signals[name]))
		}
	}
}

func serving(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := dial(args[0])
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(awaitHealth(ctx, conn, healthgrpc.HealthCheckResponse_SERVING))
}

// settled waits until all that a server loads at its start is ready or has failed, at its HTTP address.
func settled(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond) // nothing tells but asking
	defer again.Stop()
	defer http.DefaultClient.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+args[0]+"/readyz", http.NoBody)
		ts.Check(err)
		if answer, err := http.DefaultClient.Do(req); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			ts.Fatalf("%s is not ready", args[0])
		}
	}
}

// awaitHealth returns when the whole server has that health.
func awaitHealth(ctx context.Context, conn *grpc.ClientConn, want healthgrpc.HealthCheckResponse_ServingStatus) error {
	watch, err := healthgrpc.NewHealthClient(conn).Watch(ctx, &healthgrpc.HealthCheckRequest{})
	for err == nil {
		var now *healthgrpc.HealthCheckResponse
		if now, err = watch.Recv(); now.GetStatus() == want {
			return nil
		}
	}
	return fmt.Errorf("wait for the health %v: %w", want, err)
}

func waiting(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := dial(args[0])
	ts.Check(err)
	defer conn.Close()
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(awaitQueue(ctx, conn, args[1], n))
}

// awaitQueue returns when n requests of the model wait and one is being executed.
func awaitQueue(ctx context.Context, conn *grpc.ClientConn, model string, n int) error {
	again := time.NewTicker(5 * time.Millisecond) // nothing tells of queues but looking at them
	defer again.Stop()
	for {
		answer, err := weftv1.NewModelServiceClient(conn).GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{Model: model})
		if err != nil {
			return err
		}
		requests, running := 0, 0
		for _, q := range answer.GetState().GetQueues() {
			requests += int(q.GetRequests())
			running += int(q.GetInFlight())
		}
		if requests == n && running == 1 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%d requests wait, %d are executed; want %d and 1: %w", requests, running, n, ctx.Err())
		}
	}
}

// awaitState waits until a version has a state.
func awaitState(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := dial(args[0])
	ts.Check(err)
	defer conn.Close()
	number, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
