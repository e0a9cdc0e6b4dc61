package weftclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
)

func streamRequest(id string) *weftclient.StreamRequest {
	q := &weftclient.StreamRequest{Request: *observation()}
	q.ID = id
	return q
}

func TestStream(t *testing.T) {
	stream, err := dial(t, nil).PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := streamRequest("wrong")
	wrong.Inputs = nil
	for _, q := range []*weftclient.StreamRequest{streamRequest("a"), wrong, streamRequest("b")} {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answers := map[string]*weftclient.StreamAnswer{}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		answers[answer.ID] = answer
	}
	if len(answers) != 3 || status.Code(answers["wrong"].Err) != codes.InvalidArgument || answers["wrong"].Answer != nil {
		t.Fatalf("%v", answers)
	}
	for _, id := range []string{"a", "b"} {
		value, err := weftclient.Values[float32](answers[id].Answer.Outputs["value"])
		if err != nil || len(value) != 1 || value[0] != 10 || answers[id].Err != nil || answers[id].Answer.ID != id {
			t.Errorf("%s: %v, %v, %+v", id, value, err, answers[id])
		}
	}
}

// TestStreamTimes: a newer observation takes the place of one that waits, and a timeout ends another.
func TestStreamTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dial(t, func(ctx context.Context, call *catalog.Call) error {
			ctx, cancel := context.WithDeadline(ctx, call.Limit)
			defer cancel()
			<-ctx.Done() // as one that waits in a queue
			return context.Cause(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.PredictStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		old, young := streamRequest("old"), streamRequest("young")
		old.Episode, young.Episode = "robot-7", "robot-7"
		old.Timeout, young.Timeout, young.Supersede = time.Minute, 20*time.Millisecond, true
		for _, q := range []*weftclient.StreamRequest{old, young} {
			if err := stream.Send(q); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		answer, err := stream.Recv()
		e, is := errors.AsType[*weftclient.Error](answer.Err)
		if err != nil || answer.ID != "old" || !is || e.Code != codes.Aborted || e.Reason != "SUPERSEDED" {
			t.Errorf("%+v, %v", answer, err)
		}
		answer, err = stream.Recv()
		if err != nil || answer.ID != "young" || status.Code(answer.Err) != codes.DeadlineExceeded {
			t.Errorf("%+v, %v", answer, err)
		}
		cancel()
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%v after the context has ended", err)
		}
	})
}

// TestStreamOpensAgain: servers are replaced while requests are on their way, one after the other, and answers are
// large. Each request is run once, and gets one answer. One whose time is over meanwhile hears that it is.
func TestStreamOpensAgain(t *testing.T) {
	const requests, large, servers = 400, 1_000, 8
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[bufconn.Listener]
		var ran atomic.Int64
		start := func() *house {
			h := newHouse(func(context.Context, *catalog.Call) error {
				ran.Add(1)
				time.Sleep(time.Millisecond)
				return nil
			})
			listener := bufconn.Listen(1 << 20)
			t.Cleanup(h.serve(listener, server.Config{}))
			now.Store(listener)
			return h
		}
		old := start()
		client, err := weftclient.New("passthrough:///houses", weftclient.WithDialOptions(grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return now.Load().DialContext(ctx) })))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := client.PredictStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q := &weftclient.StreamRequest{}
		q.Model, q.Inputs = weftclient.Model("fp32/1"), weftclient.Tensors{"x": weftclient.FromSlice(make([]float32, large))}
		var over sync.WaitGroup
		over.Go(func() {
			for i := range requests {
				if q.ID = strconv.Itoa(i); stream.Send(q) != nil {
					t.Errorf("request %d cannot be sent", i)
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
		})
		over.Go(func() {
			for range servers {
				time.Sleep(time.Millisecond)
				before := old
				old = start()
				before.leave()
			}
		})
		answers := map[string]int{}
		for {
			answer, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || answer.Err != nil {
				t.Fatalf("after %d answers: %v, %v", len(answers), err, answer)
			}
			answers[answer.ID]++
		}
		over.Wait()
		if len(answers) != requests || ran.Load() != requests {
			t.Errorf("%d requests were run, and %d answered", ran.Load(), len(answers))
		}
		for id, n := range answers {
			if n != 1 {
				t.Errorf("request %s has %d answers", id, n)
			}
		}
		if q.ID = "late"; !errors.Is(stream.Send(q), io.EOF) {
			t.Error("a request can be sent once all is over")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestIdleStreamOutlivesItsServers: servers are replaced, minutes apart, while a stream has nothing to send.
func TestIdleStreamOutlivesItsServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[bufconn.Listener]
		start := func() *house {
			h, listener := newHouse(nil), bufconn.Listen(1<<20)
			t.Cleanup(h.serve(listener, server.Config{}))
			now.Store(listener)
			return h
		}
		old := start()
		client, err := weftclient.New("passthrough:///houses", weftclient.WithDialOptions(grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return now.Load().DialContext(ctx) })))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := client.PredictStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range 8 {
				time.Sleep(time.Minute)
				before := old
				old = start()
				before.leave()
			}
			time.Sleep(time.Minute)
			if err := stream.Send(streamRequest("a")); err != nil {
				t.Error(err)
			}
		}()
		if answer, err := stream.Recv(); err != nil || answer.ID != "a" || answer.Err != nil {
			t.Errorf("%+v, %v", answer, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStreamWithoutAServer: a stream that cannot be opened again ends with the reason.
func TestStreamWithoutAServer(t *testing.T) {
	for attempts, want := range map[int]string{1: "draining", 3: "connection error"} {
		synctest.Test(t, func(t *testing.T) {
			h, listener := newHouse(nil), bufconn.Listen(1<<20)
			t.Cleanup(h.serve(listener, server.Config{}))
			client, err := weftclient.New("passthrough:///house", weftclient.WithAttempts(attempts), over(listener))
			if err != nil {
				t.Fatal(err)
			}
			stream, err := client.PredictStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			h.leave()
			if err := stream.Send(streamRequest("a")); err != nil {
				t.Errorf("%d attempts: %v", attempts, err)
			}
			_, err = stream.Recv()
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), want) {
				t.Errorf("%d attempts: the stream ends with %v", attempts, err)
			}
			if err := stream.Send(streamRequest("b")); !errors.Is(err, io.EOF) {
				t.Errorf("%d attempts: then a request is sent with %v", attempts, err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
