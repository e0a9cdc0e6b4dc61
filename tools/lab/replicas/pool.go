package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/leastrequest" // the policies that service configs name
	_ "google.golang.org/grpc/balancer/ringhash"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	_ "google.golang.org/grpc/health" // which service configs have clients ask
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/resolver/ringhash"

	"github.com/weftserve/weft/proto/weftclient"
)

// pool is channels of gRPC that have the same endpoints.
type pool struct {
	clients   []*weftclient.Client
	resolvers []*manual.Resolver
	between   *balancer // nil: the channels balance
}

// balancers are processes that run, by their names.
type balancers map[string]*balancer

func (b balancers) stop() {
	for _, each := range b {
		each.stop()
	}
}

// open makes channels that balance as a policy says. Those through the same process share it; shared has it.
func (r *trial) open(p *policy, n int, targets []target, shared balancers) (all *pool, err error) {
	config, between := p.config, shared[p.through]
	switch {
	case between != nil:
	case p.through == envoyName:
		between, err = r.envoy(p.config, p.other, targets)
	case p.through == haproxyName:
		between, err = r.haproxy(targets)
	case !strings.HasPrefix(config, "{"):
		config, err = r.shipped(config)
	}
	if err != nil {
		return nil, err
	}
	if between != nil {
		shared[p.through] = between
		config, targets = "{}", []target{{grpc: between.address}}
	}
	if all, err = dial(n, config, targets); err != nil {
		return nil, err
	}
	all.between = between
	return all, all.connect(r.ctx)
}

// dial makes channels. Calls are sent again only as the service config says, which takes the place of the client's own;
// streams are opened again.
func dial(n int, config string, targets []target) (*pool, error) {
	p := &pool{}
	for range n {
		r := manual.NewBuilderWithScheme("cells")
		r.InitialState(stateOf(targets))
		client, err := weftclient.New("cells:///weft",
			weftclient.WithDialOptions(grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(config)))
		if err != nil {
			p.close()
			return nil, err
		}
		p.clients, p.resolvers = append(p.clients, client), append(p.resolvers, r)
	}
	return p, nil
}

// stateOf is what a resolver tells. A ring knows a server by its pod, whatever its address is.
func stateOf(targets []target) (s resolver.State) {
	for _, t := range targets {
		s.Endpoints = append(s.Endpoints,
			ringhash.SetHashKey(resolver.Endpoint{Addresses: []resolver.Address{{Addr: t.grpc}}}, t.pod))
	}
	return s
}

// set tells which servers there are.
func (p *pool) set(targets []target) error {
	if p.between != nil {
		return p.between.set(targets)
	}
	for _, r := range p.resolvers {
		r.UpdateState(stateOf(targets))
	}
	return nil
}

// connect waits until each channel has a server that answers.
func (p *pool) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, c := range p.clients {
		if _, err := c.Predict(ctx, request(modelName, "first"), grpc.WaitForReady(true)); err != nil {
			return fmt.Errorf("a channel found no server: %w", err)
		}
	}
	return nil
}

func (p *pool) close() {
	for _, c := range p.clients {
		_ = c.Close() // says that it was closed before
	}
}

// Service configs: what is compared with ours, and names of ours.
const (
	plainRoundRobin   = `{"loadBalancingConfig": [{"round_robin": {}}]}`
	plainLeastRequest = `{"loadBalancingConfig": [{"least_request_experimental": {"choiceCount": 2}}]}`

	weighted = "wrr"
	ring     = "ring"
)

// shipped returns the service config that weft prints.
func (r *trial) shipped(kind string) (string, error) {
	text, err := exec.CommandContext(r.ctx, r.Weft, "serviceconfig", kind).Output()
	if err != nil {
		return "", fmt.Errorf("weft serviceconfig %s: %w", kind, err)
	}
	return string(text), nil
}
