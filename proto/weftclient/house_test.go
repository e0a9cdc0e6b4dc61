package weftclient_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched"
)

// house is the models of a real server: policy, and for each element type and rank one that gives back what it gets,
// such as fp32/2. Of memory the server keeps the state s, 0 at first, which is s*31+x in the next step.
type house struct {
	snapshot *catalog.Snapshot
	before   func(context.Context, *catalog.Call) error // a call is run; nil: nothing is
	leave    func()                                     // the server leaves, as at the end of its lame duck; set by serve
}

func newHouse(before func(context.Context, *catalog.Call) error) *house {
	models := []*catalog.Model{servertest.PolicySnapshot().Model("policy")}
	for d := tensor.Bool; d <= tensor.String; d++ {
		for rank := range 4 {
			shape := make(tensor.Shape, rank)
			for i := range shape {
				shape[i] = tensor.Unknown
			}
			name := fmt.Sprintf("%v/%d", d, rank)
			models = append(models, &catalog.Model{Name: name, Versions: []*catalog.Version{{
				Model: name, Number: 1, State: catalog.Ready, Signature: &tensor.Signature{
					Inputs:  []tensor.Spec{{Name: "x", DType: d, Shape: shape, BatchDim: tensor.NoBatch}},
					Outputs: []tensor.Spec{{Name: "y", DType: d, Shape: shape, BatchDim: tensor.NoBatch}},
				},
			}}})
		}
	}
	number := func(name string) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown}}
	}
	models = append(models, &catalog.Model{Name: "memory", Versions: []*catalog.Version{{
		Model: "memory", Number: 1, State: catalog.Ready,
		Signature: &tensor.Signature{
			Inputs: []tensor.Spec{number("x"), number("s")}, Outputs: []tensor.Spec{number("y"), number("sn")},
		},
		EpisodeState: &catalog.EpisodeState{
			Inputs: []catalog.StateInput{{Input: 1, Output: 1, Initial: tensor.Tensor{
				DType: tensor.Int64, Shape: tensor.Shape{1}, Data: make([]byte, 8),
			}}},
			MaxEpisodes: 10, Idle: 10 * time.Second,
		},
	}}})
	return &house{snapshot: servertest.SnapshotOf(1, models...), before: before}
}

// Snapshot implements predict.Models.
func (h *house) Snapshot() *catalog.Snapshot { return h.snapshot }

// State implements weftapi.SchedulerState.
func (h *house) State() sharedsched.State { return sharedsched.State{} }

// Predict implements predict.Models.
func (h *house) Predict(ctx context.Context, call *catalog.Call) error {
	if h.before != nil {
		if err := h.before(ctx, call); err != nil {
			return err
		}
	}
	if call.Version.Model == "policy" {
		return servertest.RunPolicy(ctx, call)
	}
	if call.Version.Model == "memory" {
		next := call.Inputs[1].Clone()
		x, s := call.Inputs[0].Clone().Data, next.Data
		binary.LittleEndian.PutUint64(s, binary.LittleEndian.Uint64(s)*31+binary.LittleEndian.Uint64(x))
		for range call.Wanted {
			call.Results = append(call.Results, next)
		}
		return nil
	}
	call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
	return nil
}

// serve serves the models on a listener until stop is called.
func (h *house) serve(listener net.Listener, config server.Config) (stop func()) {
	config.Logger = slog.New(slog.DiscardHandler)
	edge := server.New(config, h, h)
	g := grpc.NewServer(append(transport.Options(transport.DefaultMaxMessageBytes, mem.DefaultBufferPool()),
		edge.Options(insecure.NewCredentials())...)...)
	edge.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	h.leave = func() {
		edge.Leave()
		g.GracefulStop()
	}
	return func() {
		g.Stop()
		<-served
	}
}

// dial returns a client of a server in memory.
func dial(t *testing.T, before func(context.Context, *catalog.Call) error, options ...weftclient.Option,
) *weftclient.Client {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	stop := newHouse(before).serve(listener, server.Config{})
	t.Cleanup(stop)
	client, err := weftclient.New("passthrough:///house", append(options, over(listener))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// over has a client connect to a listener in memory.
func over(listener *bufconn.Listener) weftclient.Option {
	return weftclient.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}))
}

// observation is a request of one row. The model policy answers with its first two values and the sum.
func observation() *weftclient.Request {
	return &weftclient.Request{
		Model:  weftclient.Model("policy"),
		Inputs: weftclient.Tensors{"observation": weftclient.FromSlice([]float32{1, 2, 3, 4}, 1, 4)},
	}
}
