package weftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Patience is how long a test waits for an event that must come. Tests pass as soon as it comes; only a failing one
// takes so long.
const Patience = 30 * time.Second

// Dial returns a connection that keeps trying until a server listens.
func Dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// gRPC waits a second before it tries again, which most tests of a starting server would wait for.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 10 * time.Millisecond, Multiplier: 1,
				MaxDelay: 10 * time.Millisecond,
			},
			MinConnectTimeout: Patience, // else that of the backoff, which is too short for a busy machine
		}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// Serve makes a server answer at a free port of this machine until the end of the test, and returns its address.
func Serve(t testing.TB, g *grpc.Server) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ServeOn(t, g, listener)
	return listener.Addr().String()
}

// ServeOn makes a server answer on a listener until the end of the test, which fails if serving does.
func ServeOn(t testing.TB, g *grpc.Server, listener net.Listener) {
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		// It is stopped already where the test ends before it has begun.
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
}

// Request asks a model with one input x of shape [-1, 4].
func Request(model string, value float32) *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: model},
		Inputs: map[string]*weftv1.Tensor{"x": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 4}, FloatValues: []float32{value, 2, 3, 4},
		}},
	}
}

// Predict sends n requests at once, with an input of that name, and counts how they end.
func Predict(ctx context.Context, conn *grpc.ClientConn, model, input string, n int) (map[codes.Code]int, []error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		ended = map[codes.Code]int{}
		errs  []error
	)
	// All are sent at once, so that they wait together.
	for i := range n {
		wg.Go(func() {
			q := Request(model, float32(i))
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

// AwaitHealth returns when the whole server has that health.
func AwaitHealth(ctx context.Context, conn *grpc.ClientConn, want healthgrpc.HealthCheckResponse_ServingStatus) error {
	watch, err := healthgrpc.NewHealthClient(conn).Watch(ctx, &healthgrpc.HealthCheckRequest{})
	for err == nil {
		var now *healthgrpc.HealthCheckResponse
		if now, err = watch.Recv(); now.GetStatus() == want {
			return nil
		}
	}
	return fmt.Errorf("wait for the health %v: %w", want, err)
}

// AwaitQueue returns when n requests of the model wait and one is being executed, or with an error when ctx ends.
func AwaitQueue(ctx context.Context, conn *grpc.ClientConn, model string, n int) error {
	again := time.NewTicker(5 * time.Millisecond) // queues notify nobody: a test must look at them
	defer again.Stop()
	for {
		answer, err := weftv1.NewModelServiceClient(conn).GetSchedulerState(ctx,
			&weftv1.GetSchedulerStateRequest{Model: model})
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
