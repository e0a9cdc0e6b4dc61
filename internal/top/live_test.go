package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/ask"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// service is a server that shows the made-up one.
type service struct {
	weftv1.UnimplementedModelServiceServer

	demo  *demo
	calls atomic.Int32
	// fails ends the calls of that number and below after one answer.
	fails int32
}

func (s *service) WatchActivity(
	q *weftv1.WatchActivityRequest, out grpc.ServerStreamingServer[weftv1.WatchActivityResponse],
) error {
	call := s.calls.Add(1)
	var failed error
	err := s.demo.watch(out.Context(), q.GetOnce(), func(a *weftv1.Activity) bool {
		failed = out.Send(&weftv1.WatchActivityResponse{Activity: a})
		return failed == nil && call > s.fails
	})
	if call <= s.fails {
		return status.Error(codes.Unavailable, "the server is draining")
	}
	return errors.Join(err, failed)
}

func (s *service) ListRequests(ctx context.Context, q *weftv1.ListRequestsRequest) (
	*weftv1.ListRequestsResponse, error,
) {
	return s.demo.list(ctx, q.GetModel())
}

// serve returns the flags of a server.
func serve(t *testing.T, s weftv1.ModelServiceServer) ask.Server {
	t.Helper()
	g := grpc.NewServer()
	weftv1.RegisterModelServiceServer(g, s)
	return ask.Server{Address: weftest.Serve(t, g)}
}

func TestOnceOfServer(t *testing.T) {
	o := Options{Once: true, JSON: true, Wait: 10e9, Server: serve(t, &service{demo: newDemo()})}
	var out bytes.Buffer
	if err := Run(t.Context(), &o, &out); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Schema     int
		Versions   []any
		LateOrLost int `json:"late_or_lost_last_minute"`
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Schema != 1 || len(r.Versions) != 5 || r.LateOrLost == 0 {
		t.Errorf("%v: %s", err, out.String())
	}
	o.JSON = false
	out.Reset()
	if err := Run(t.Context(), &o, &out); err != nil || !strings.Contains(out.String(), "walk v8 prod") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestReconnects: a server that goes away is asked again; what was known stays.
func TestReconnects(t *testing.T) {
	s := &service{demo: newDemo(), fails: 2}
	flags := serve(t, s)
	l, err := connect(&flags)
	if err != nil {
		t.Fatal(err)
	}
	defer l.client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	screen := newScreen(ctx, l)
	losses := 0
	err = follow(ctx, l, func(m any) {
		switch m := m.(type) {
		case lostMsg:
			if losses++; !strings.Contains(m.err.Error(), "draining") {
				t.Error(m.err)
			}
		case *weftv1.Activity:
			if screen.Update(m); s.calls.Load() > s.fails {
				cancel()
			}
		}
	})
	if err != nil || losses != 2 || screen.history.GetRun() != "demo" || screen.lost != nil {
		t.Errorf("%v, %d losses, run %q", err, losses, screen.history.GetRun())
	}
}

func TestFailures(t *testing.T) {
	closed := serve(t, &service{demo: newDemo()})
	closed.Address = "127.0.0.1:1"
	old := serve(t, weftv1.UnimplementedModelServiceServer{})
	for _, tt := range []struct {
		o     Options
		usage bool
		want  string
	}{
		{Options{Once: true, Wait: 10e9, Server: closed}, false, "no server answers at --address 127.0.0.1:1 ("},
		{Options{Once: true, Wait: 10e9, Server: old}, false, "it is older than this program"},
		{Options{Wait: 10e9, Demo: true}, false, "`weft top --once` prints one table"},
		{Options{Wait: 10e9, JSON: true}, true, "--json: "},
		{Options{}, true, "--timeout: expected a duration above 0"},
		{Options{Wait: 10e9, Server: ask.Server{Address: "\x00"}}, false, "expected the server's HOST:PORT"},
	} {
		var out bytes.Buffer
		err := Run(t.Context(), &tt.o, &out)
		_, usage := errors.AsType[config.Faults](err)
		if err == nil || usage != tt.usage || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("%+v: %v\nwant ...%s...", tt.o, err, tt.want)
		}
	}
	l, err := connect(&old)
	if err != nil {
		t.Fatal(err)
	}
	defer l.client.Close()
	err = follow(t.Context(), l, func(any) { t.Error("it was told of") })
	if err == nil || !strings.Contains(err.Error(), "older than this program") {
		t.Errorf("an old server is asked again: %v", err)
	}
}
