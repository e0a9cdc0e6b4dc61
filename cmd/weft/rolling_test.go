package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// replicas are servers behind a name, as a headless service of Kubernetes has it.
type replicas struct {
	t        *testing.T
	start    func() *victim
	names    []*manual.Resolver // one of each client
	running  []*victim
	resolved []*victim // what the name leads to
}

func startReplicas(t *testing.T, n int, flags ...string) *replicas {
	t.Helper()
	program, repository := selfAsWeft(t), t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", `{synth: {base: 1ms, `+weftest.Tensors+`}, batching: {mode: "on"}}`)
	r := &replicas{t: t}
	r.start = func() *victim {
		return startVictim(t, program, repository, "127.0.0.1:0", append([]string{"--state-dir=none"}, flags...)...)
	}
	for range n {
		r.add()
	}
	t.Cleanup(func() {
		for _, v := range r.running {
			v.kill(t)
		}
	})
	return r
}

func (r *replicas) add() {
	v := r.start()
	r.running, r.resolved = append(r.running, v), append(r.resolved, v)
	r.resolve()
}

func (r *replicas) resolve() {
	var state resolver.State
	for _, v := range r.resolved {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: v.address}}})
	}
	for _, names := range r.names {
		names.UpdateState(state)
	}
}

// name returns a resolver of another client.
func (r *replicas) name() grpc.DialOption {
	names := manual.NewBuilderWithScheme("replicas")
	r.names = append(r.names, names)
	r.resolve()
	return grpc.WithResolvers(names)
}

// replace stops the oldest one, which the name leads to for so long after that, and waits for its end.
func (r *replicas) replace(late time.Duration) {
	r.t.Helper()
	r.add()
	old := r.running[0]
	r.running = r.running[1:]
	if err := old.process.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	<-time.After(late)
	r.resolved = r.resolved[1:]
	r.resolve()
	<-old.drained
	if err := old.process.Wait(); err != nil {
		r.t.Errorf("a replica that was replaced ended with %v", err)
	}
	old.conn.Close()
	old.admin.Close()
}

// load is requests to replicas, until it is ended.
type load struct {
	over   sync.WaitGroup
	done   chan struct{}
	asked  atomic.Int64
	failed atomic.Int64
	first  atomic.Pointer[error]
}

func (l *load) count(err error) {
	if l.asked.Add(1); err != nil {
		l.failed.Add(1)
		l.first.CompareAndSwap(nil, &err)
	}
}

// repeat calls f again and again, and then end.
func (l *load) repeat(f func(i int), end func()) {
	l.over.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-l.done:
				end()
				return
			case <-time.After(2 * time.Millisecond):
				f(i)
			}
		}
	})
}

// end ends the load, and wants requests, and none to have failed.
func (l *load) end(t *testing.T, of string) {
	t.Helper()
	close(l.done)
	l.over.Wait()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d %s failed, the first with %v", n, l.asked.Load(), of, *l.first.Load())
	}
	t.Logf("%d %s", l.asked.Load(), of)
}

// unary sends requests, each a call of its own that goes to the next replica.
func (r *replicas) unary(serviceConfig string) *load {
	l := &load{done: make(chan struct{})}
	conn, err := grpc.NewClient("replicas:///all", r.name(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(serviceConfig))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	for range 8 {
		l.repeat(func(int) {
			ctx, cancel := context.WithTimeout(context.Background(), weftest.Patience)
			defer cancel()
			_, err := weftv1.NewPredictionServiceClient(conn).Predict(ctx, weftest.Request("walker", 1))
			l.count(err)
		}, func() {})
	}
	return l
}

// streams sends requests on streams of our client: each must have one answer, whatever becomes of its stream.
func (r *replicas) streams(serviceConfig string) *load {
	l := &load{done: make(chan struct{})}
	client, err := weftclient.New("replicas:///all", weftclient.WithDialOptions(
		r.name(), grpc.WithDefaultServiceConfig(serviceConfig)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { client.Close() })
	for robot := range 4 {
		stream, err := client.PredictStream(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		var sent atomic.Int64
		l.repeat(func(i int) {
			q := &weftclient.StreamRequest{Request: weftclient.Request{
				Model: weftclient.Model("walker"), ID: strconv.Itoa(i), Episode: fmt.Sprintf("%d/%d", robot, i/50),
				EndOfEpisode: i%50 == 49, Inputs: weftclient.Tensors{"x": weftclient.FromSlice(make([]float32, 4), 1, 4)},
			}}
			if err := stream.Send(q); err != nil {
				l.count(err)
			}
			sent.Add(1)
		}, func() {
			if err := stream.CloseSend(); err != nil {
				l.count(err)
			}
		})
		l.over.Go(func() {
			answers := map[string]bool{}
			for {
				answer, err := stream.Recv()
				switch {
				case errors.Is(err, io.EOF):
					if int64(len(answers)) != sent.Load() {
						l.count(fmt.Errorf("%d answers to %d requests", len(answers), sent.Load()))
					}
					return
				case err != nil:
					l.count(err)
					return
				case answers[answer.ID]:
					l.count(fmt.Errorf("a second answer to %s", answer.ID))
				default:
					answers[answer.ID] = true
					l.count(answer.Err)
				}
			}
		})
	}
	return l
}

// TestRollingReplacement replaces three servers, one after the other, under load. Clients may learn that one is gone
// when its lame duck is nearly over, or only by GOAWAY: no request fails, with nothing that would send it again.
func TestRollingReplacement(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts fifteen servers")
	}
	const balanced = `{"loadBalancingConfig": [{"round_robin": {}}]}`
	r := startReplicas(t, 3, "--lame-duck=300ms")
	unary, streams := r.unary(balanced), r.streams(balanced)
	for _, late := range []time.Duration{0, 60 * time.Millisecond, 280 * time.Millisecond, 400 * time.Millisecond} {
		for range 3 {
			r.replace(late)
		}
	}
	unary.end(t, "calls")
	streams.end(t, "requests on streams")
}

// TestReplicaKilled: one of three is killed, and calls are sent again where no server is there.
func TestReplicaKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers")
	}
	r := startReplicas(t, 3)
	l := r.unary(`{"loadBalancingConfig": [{"round_robin": {}}], "methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.02s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`)
	weftest.Until(t, "calls are answered", func() bool { return l.asked.Load() > 100 })
	r.running[0].kill(t)
	r.running = r.running[1:]
	before := l.asked.Load()
	weftest.Until(t, "calls are answered after the kill", func() bool { return l.asked.Load() > before+300 })
	l.end(t, "calls")
}
