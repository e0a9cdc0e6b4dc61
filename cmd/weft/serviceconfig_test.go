package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/ringhash"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// replica is a server with one device, which takes as long for each request, one after the other.
type replica struct {
	*servertest.House
	listener *bufconn.Listener
	cost     time.Duration
	answered atomic.Int64
	down     atomic.Bool // it answers UNAVAILABLE

	began   time.Time
	device  chan struct{} // has an element while it works
	mu      sync.Mutex
	waiting int           // guarded by mu
	busy    time.Duration // guarded by mu
	since   time.Time     // guarded by mu; the device works since then; zero: it does not
}

// newReplica returns one that serves until the end of the test.
func newReplica(t *testing.T, cost time.Duration) *replica {
	t.Helper()
	r := &replica{cost: cost, began: time.Now(), device: make(chan struct{}, 1), listener: bufconn.Listen(1 << 20)}
	r.House = servertest.New(t, server.Config{Load: r.load})
	r.Run = r.run
	r.Begin()
	go r.Load().Watch(t.Context())
	go func() { _ = r.GRPC.Serve(r.listener) }() // ends with the server, which the house stops
	return r
}

// run is Models.Predict.
func (r *replica) run(ctx context.Context, call *catalog.Call) error {
	if r.down.Load() {
		return catalog.ErrDeviceLost
	}
	r.count(1, false)
	r.device <- struct{}{}
	r.count(-1, true)
	time.Sleep(r.cost)
	r.mu.Lock()
	r.busy, r.since = r.busy+time.Since(r.since), time.Time{}
	r.mu.Unlock()
	<-r.device
	r.answered.Add(1)
	return servertest.RunPolicy(ctx, call)
}

func (r *replica) count(by int, starts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting += by; starts {
		r.since = time.Now()
	}
}

func (r *replica) load() (sharedsched.Time, []sharedsched.DeviceLoad) {
	r.mu.Lock()
	defer r.mu.Unlock()
	busy := r.busy
	if !r.since.IsZero() {
		busy += time.Since(r.since)
	}
	return sharedsched.Time(time.Since(r.began)), []sharedsched.DeviceLoad{
		{Name: "cpu", Busy: busy, Work: r.cost * time.Duration(r.waiting), Full: r.cost},
	}
}

// clientOf returns a client of replicas with what `weft serviceconfig` prints as its service config.
func clientOf(t *testing.T, config string, replicas ...*replica) weftv1.PredictionServiceClient {
	t.Helper()
	names := manual.NewBuilderWithScheme("replicas")
	var state resolver.State
	for i := range replicas {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: strconv.Itoa(i)}}})
	}
	names.InitialState(state)
	conn, err := grpc.NewClient("replicas:///all", grpc.WithResolvers(names), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return replicas[addr[0]-'0'].listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return weftv1.NewPredictionServiceClient(conn)
}

// printed returns what `weft serviceconfig` prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, faults bytes.Buffer
	if code := run(append([]string{"serviceconfig"}, args...), &out, &faults); code != 0 {
		t.Fatalf("exit status %d: %s", code, &faults)
	}
	return out.String()
}

// TestWeightsFollowTheLoad: gRPC's weighted round robin gives a server of half the speed half as many requests, by what
// its answers say, so that nearly all are in time. By turns most of the slow server's are late.
func TestWeightsFollowTheLoad(t *testing.T) {
	for _, c := range []struct {
		config string
		share  [2]float64 // of the slow server, at least and at most
		late   [2]float64
	}{
		{printed(t), [2]float64{0.25, 0.4}, [2]float64{0, 0.02}},
		{`{"loadBalancingConfig": [{"round_robin": {}}]}`, [2]float64{0.49, 0.51}, [2]float64{0.3, 0.6}},
	} {
		synctest.Test(t, func(t *testing.T) {
			fast, slow := newReplica(t, 10*time.Millisecond), newReplica(t, 20*time.Millisecond)
			client := clientOf(t, c.config, fast, slow)
			random := rand.New(rand.NewPCG(1, 2))
			var calls sync.WaitGroup
			var late, all atomic.Int64
			for began := time.Now(); time.Since(began) < time.Minute; {
				time.Sleep(time.Duration(random.ExpFloat64() / (0.8 * 150) * float64(time.Second)))
				counts := time.Since(began) > 5*time.Second
				calls.Go(func() {
					sent := time.Now()
					if _, err := client.Predict(t.Context(), servertest.Observation("")); err != nil {
						t.Error(err)
					}
					if counts {
						all.Add(1)
						if time.Since(sent) > 150*time.Millisecond {
							late.Add(1)
						}
					}
				})
			}
			calls.Wait()
			share := float64(slow.answered.Load()) / float64(slow.answered.Load()+fast.answered.Load())
			part := float64(late.Load()) / float64(all.Load())
			t.Logf("share of the slow server %.3f, late %.4f", share, part)
			if share < c.share[0] || share > c.share[1] || part < c.late[0] || part > c.late[1] {
				t.Errorf("%s\nthe slow server got %.3f of the requests, want %v; late were %.4f, want %v", c.config, share, c.share,
					part, c.late)
			}
		})
	}
}

// TestEpisodesStay at one server by the ring, and both have some.
func TestEpisodesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, time.Millisecond), newReplica(t, time.Millisecond)
		client := clientOf(t, printed(t, "ring"), a, b)
		of := [2]int{}
		for episode := range 40 {
			before := [2]int64{a.answered.Load(), b.answered.Load()}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "weft-episode", fmt.Sprint("robot-", episode))
			for range 5 {
				if _, err := client.Predict(ctx, servertest.Observation("")); err != nil {
					t.Fatal(err)
				}
			}
			switch ofA, ofB := a.answered.Load()-before[0], b.answered.Load()-before[1]; {
			case ofA == 5:
				of[0]++
			case ofB == 5:
				of[1]++
			default:
				t.Errorf("episode %d is answered by both", episode)
			}
		}
		if of[0] < 5 || of[1] < 5 {
			t.Errorf("of 40 episodes the servers have %v", of)
		}
	})
}

// TestUnavailableIsSentAgain, to another server.
func TestUnavailableIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, time.Millisecond), newReplica(t, time.Millisecond)
		client := clientOf(t, printed(t, "wrr"), a, b)
		a.down.Store(true)
		for range 100 {
			if _, err := client.Predict(t.Context(), servertest.Observation("")); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.answered.Load(); n != 100 {
			t.Errorf("the server that works answered %d of 100", n)
		}
	})
}
