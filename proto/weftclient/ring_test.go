package weftclient_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/ringhash"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/resolver/ringhash"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
)

// ring is servers behind gRPC's hash ring by the metadata weft-episode.
type ring struct {
	t        *testing.T
	resolver *manual.Resolver
	named    bool // servers have names on the ring, and not their addresses
	client   *weftclient.Client
	servers  []resolver.Endpoint
	stops    []func()
	answered atomic.Int32 // which answered the latest request
}

func newRing(t *testing.T, n int, named bool) *ring {
	g := &ring{t: t, resolver: manual.NewBuilderWithScheme("ring"), named: named}
	for i := range n {
		g.servers, g.stops = append(g.servers, resolver.Endpoint{}), append(g.stops, nil)
		g.start(i)
	}
	g.resolver.InitialState(resolver.State{Endpoints: g.servers})
	var err error
	g.client, err = weftclient.New("ring:///", weftclient.WithDialOptions(grpc.WithResolvers(g.resolver),
		grpc.WithDefaultServiceConfig(
			`{"loadBalancingConfig": [{"ring_hash_experimental": {"requestHashHeader": "weft-episode"}}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.client.Close()
		for _, stop := range g.stops {
			stop()
		}
	})
	return g
}

// start starts a server at an address that nothing had before.
func (g *ring) start(i int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	g.stops[i] = newHouse(func(context.Context, *catalog.Call) error {
		g.answered.Store(int32(i))
		return nil
	}).serve(listener, server.Config{})
	g.servers[i] = resolver.Endpoint{Addresses: []resolver.Address{{Addr: listener.Addr().String()}}}
	if g.named {
		g.servers[i] = ringhash.SetHashKey(g.servers[i], "weft-"+strconv.Itoa(i))
	}
}

// places returns which server answers each of so many episodes.
func (g *ring) places(n int) (all []int) {
	g.t.Helper()
	for i := range n {
		q := observation()
		q.Episode = fmt.Sprint("robot-", i)
		if _, err := g.client.Predict(g.t.Context(), q); err != nil {
			g.t.Fatal(err)
		}
		all = append(all, int(g.answered.Load()))
	}
	return all
}

// TestEpisodesReturnWithTheirServer: where servers have names on the ring, an episode is with the same one after that
// has returned at another address. By their addresses some are not.
func TestEpisodesReturnWithTheirServer(t *testing.T) {
	const servers, episodes = 4, 200
	for _, named := range []bool{true, false} {
		g := newRing(t, servers, named)
		before, moved := g.places(episodes), 0
		for i := range servers {
			g.stops[i]()
			g.start(i)
			g.resolver.UpdateState(resolver.State{Endpoints: g.servers})
			for e, at := range g.places(episodes) {
				if at != before[e] {
					moved++
				}
				before[e] = at
			}
		}
		if named != (moved == 0) {
			t.Errorf("names on the ring: %v; %d of %d episodes moved", named, moved, servers*episodes)
		}
		spread := map[int]int{}
		for _, at := range before {
			spread[at]++
		}
		if len(spread) != servers {
			t.Errorf("episodes are at %v", spread)
		}
	}
}
