package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weftserve/weft/internal/lifecycle"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
)

func dialPart(t *testing.T, listener *bufconn.Listener) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:part",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error,
		) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

var errCut = errors.New("cut short")

// TestStopWithAnIdleStream that has not ended when the stop is cut short: no request is abandoned, and nothing says so.
func TestStopWithAnIdleStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		edge, g, listener := server.New(server.Config{Logger: log}, nil, nil), grpc.NewServer(), bufconn.Listen(1<<16)
		edge.Register(g)
		part := grpcPart(listener, edge, g, func() {}, func() {}, func() error { return nil }, log)
		served := make(chan error, 1)
		go func() { served <- part.Run() }()
		conn := dialPart(t, listener)
		if _, err := weftv1.NewPredictionServiceClient(conn).PredictStream(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop, cut := context.WithCancelCause(t.Context())
		cut(errCut)
		if err := part.Stop(stop); err != nil && !errors.Is(err, errCut) { // nil should the stream be the faster one
			t.Error(err)
		}
		if strings.Contains(text.String(), "event=requests_abandoned") {
			t.Error(text.String())
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStopWaitsForAnswersOnTheWay: an orderly stop leaves answers all of its time to arrive.
func TestStopWaitsForAnswersOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{})
		g := grpc.NewServer(grpc.WaitForHandlers(true),
			grpc.UnknownServiceHandler(func(_ any, rpc grpc.ServerStream) error {
				close(began)
				select {
				case <-time.After(5 * farewell): // is how long the answer is on the way
					return rpc.SendMsg(&emptypb.Empty{})
				case <-rpc.Context().Done():
					return rpc.Context().Err()
				}
			}))
		listener := bufconn.Listen(1 << 16)
		log := slog.New(slog.DiscardHandler)
		part := grpcPart(listener, server.New(server.Config{Logger: log}, nil, nil), g, func() {},
			func() { t.Error("abandoned") }, func() error { t.Error("ended"); return nil }, log)
		served := make(chan error, 1)
		go func() { served <- part.Run() }()
		conn := dialPart(t, listener)
		answered := make(chan error, 1)
		go func() { answered <- conn.Invoke(t.Context(), "/some/Method", &emptypb.Empty{}, &emptypb.Empty{}) }()
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), 10*farewell)
		defer cancel()
		if err := part.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("the answer on the way: %v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStopEndsRunsThatHang once it was cut short and they had the farewell. One that cannot be ended is left behind.
func TestStopEndsRunsThatHang(t *testing.T) {
	for _, left := range []error{nil, lifecycle.ErrLeftBehind} {
		synctest.Test(t, func(t *testing.T) {
			began, hangs := make(chan struct{}), make(chan struct{})
			g := grpc.NewServer(grpc.WaitForHandlers(true),
				grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
					close(began)
					<-hangs
					return nil
				}))
			listener := bufconn.Listen(1 << 16)
			log := slog.New(slog.DiscardHandler)
			end := sync.OnceFunc(func() { close(hangs) })
			part := grpcPart(listener, server.New(server.Config{Logger: log}, nil, nil), g, func() {},
				func() {}, func() error {
					if left == nil {
						end()
					}
					return left
				}, log)
			served := make(chan error, 1)
			go func() { served <- part.Run() }()
			conn := dialPart(t, listener)
			answered := make(chan error, 1)
			go func() { answered <- conn.Invoke(t.Context(), "/some/Method", &emptypb.Empty{}, &emptypb.Empty{}) }()
			<-began
			ctx, cancel := context.WithTimeout(t.Context(), farewell)
			defer cancel()
			if err := part.Stop(ctx); !errors.Is(err, left) {
				t.Errorf("the stop ended with %v, want %v", err, left)
			}
			<-answered // it depends on who was faster
			end()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
