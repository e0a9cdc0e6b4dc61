package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
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

// TestLameDuck plays a stop: health says no at once, and calls of gRPC and HTTP are answered on for so long. Then
// connections go, and requests are refused once none is left, or half of the rest of the drain timeout is over.
func TestLameDuck(t *testing.T) {
	for _, c := range []struct {
		wait    time.Duration // of the lame duck
		cut     time.Duration // when the stop is cut short
		held    time.Duration // how long the request that holds the last connection takes
		answers time.Duration // when requests were still answered
		refuses time.Duration // when they were refused
	}{
		{10 * time.Second, 30 * time.Second, 14 * time.Second, 14 * time.Second, 14 * time.Second},
		{10 * time.Second, 30 * time.Second, 25 * time.Second, 20 * time.Second, 20 * time.Second},
		{0, 30 * time.Second, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{20 * time.Second, 6 * time.Second, 5 * time.Second, 6 * time.Second, 6 * time.Second}, // a second signal
	} {
		synctest.Test(t, func(t *testing.T) {
			h := servertest.New(t, server.Config{})
			h.Run = func(ctx context.Context, call *catalog.Call) error {
				if call.Version.Number == 1 {
					time.Sleep(c.held)
				}
				return servertest.RunPolicy(ctx, call)
			}
			log := slog.New(slog.DiscardHandler)
			s := &assembly{App: &App{}, edge: h.Server, log: log}
			s.LameDuck = config.Period(c.wait)
			s.drain.Store(int64(time.Minute))
			web := h.Web()
			const moment = time.Millisecond
			ask := func() int {
				w := httptest.NewRecorder()
				web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/models/policy:predict",
					strings.NewReader(`{"instances": [[1, 2, 3, 4]]}`)))
				return w.Code
			}
			watch, err := healthgrpc.NewHealthClient(h.Conn).Watch(t.Context(), &healthgrpc.HealthCheckRequest{Service: "live"})
			if err != nil {
				t.Fatal(err)
			}
			held := make(chan error, 1)
			go func() {
				q := servertest.Observation("")
				q.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 1}
				_, err := h.Predictions.Predict(t.Context(), q)
				held <- err
			}()
			synctest.Wait()
			began := time.Now()
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.cut, errCut)
			defer cancel()
			stopped := make(chan error, 1)
			go func() {
				err := s.lameDuckPart().Stop(ctx)
				none := func() {}
				stopped <- errors.Join(err, grpcPart(nil, h.Server, h.GRPC, none, none, func() error { return nil }, log).Stop(ctx))
			}()
			synctest.Wait()
			if h.Health() != "draining" {
				t.Errorf("the server says %s", h.Health())
			}
			if before := c.answers - moment; before > 0 {
				time.Sleep(before)
				if got := ask(); got != http.StatusOK {
					t.Errorf("%+v: a request after %v gets %d", c, before, got)
				}
			}
			if stops := min(c.wait, c.cut) > time.Since(began); s.parting.Load() == stops {
				t.Errorf("%+v: connections of HTTP part: %v", c, !stops)
			}
			time.Sleep(time.Until(began.Add(c.refuses + watched + moment)))
			if got := ask(); got != http.StatusServiceUnavailable {
				t.Errorf("%+v: a request after %v gets %d", c, time.Since(began), got)
			}
			if err := <-held; err != nil && c.held < c.cut {
				t.Errorf("%+v: the request that was accepted: %v", c, err)
			}
			if err := <-stopped; err != nil && c.cut > c.refuses {
				t.Errorf("%+v: the stop ends with %v", c, err)
			}
			if _, err = watch.Recv(); err != nil {
				t.Errorf("%+v: of the service live: %v", c, err)
			}
			if _, err = watch.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("%+v: the watch ends with %v", c, err)
			}
		})
	}
}

// TestLameDuckEndsWithinTheDrainTimeout, also where that was reloaded since, and is shorter.
func TestLameDuckEndsWithinTheDrainTimeout(t *testing.T) {
	for _, c := range []struct {
		duck, drain, want time.Duration
		terminal          bool
	}{
		{duck: 10 * time.Second, drain: 30 * time.Second, want: 10 * time.Second, terminal: true},
		{duck: 10 * time.Second, drain: 10 * time.Second, want: 5 * time.Second},
		{duck: 10 * time.Second, drain: 3 * time.Second, want: 1500 * time.Millisecond},
		{duck: 0, drain: 0, want: 0},
		{duck: time.Duration(config.AutoPeriod), drain: 30 * time.Second, want: 5 * time.Second},
		{duck: time.Duration(config.AutoPeriod), drain: 3 * time.Second, want: 1500 * time.Millisecond},
		{duck: time.Duration(config.AutoPeriod), drain: 30 * time.Second, want: 0, terminal: true},
	} {
		a := &App{terminal: c.terminal}
		a.LameDuck = config.Period(c.duck)
		if got := a.lameDuck(c.drain); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// watched is how long watchers of health may hold up a stop.
const watched = 100 * time.Millisecond

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
