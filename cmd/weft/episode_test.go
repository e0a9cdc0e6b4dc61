package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// TestEpisodesOutliveTheServer kills servers with SIGKILL while clients that fetch the state with each tenth step have
// episodes: all go on, with the answers that they would have had, and repeat ten steps at most for each kill.
func TestEpisodesOutliveTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 4 seconds")
	}
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	const every = 10
	robots, steps, kills := 16, weftest.Times(100, 1000), weftest.Times(2, 10)
	repository := t.TempDir()
	dir := filepath.Join(repository, "sums", "1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g := onnxgraph.New("sums").Input("x", onnxgraph.Float, "batch", 1).Input("s", onnxgraph.Float, "batch", 1)
	g.Node("Add", []string{"x", "s"}, []string{"sum"}).Node("Identity", []string{"sum"}, []string{"y"})
	g.Output("sum", onnxgraph.Float, "batch", 1).Output("y", onnxgraph.Float, "batch", 1)
	if err := os.WriteFile(filepath.Join(dir, "model.onnx"), g.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	weftest.SetManifest(t, repository, "sums", "state: {pairs: [{input: s, output: sum}]}")
	program := selfAsWeft(t)
	server := startVictim(t, program, repository, "127.0.0.1:0")
	address := strings.TrimPrefix(server.conn.Target(), "passthrough:")

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	progress := make([]atomic.Int64, robots)
	var numbers sync.Map // the highest step of each episode
	count := func(ctx context.Context, method string, q, a any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		if step, is := q.(*weftv1.PredictRequest); is {
			numbers.Store(step.GetEpisodeId(), step.GetStep()) // they ascend
		}
		return invoke(ctx, method, q, a, conn, options...)
	}
	client, err := weftclient.New(address, weftclient.WithDialOptions(grpc.WithUnaryInterceptor(count)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var clients sync.WaitGroup
	for i := range robots {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 44))
			name := fmt.Sprintf("robot %d", i)
			e := client.Episode(weftclient.Model("sums"), name, weftclient.EpisodeOptions{
				Outputs: []string{"y"}, CheckpointEvery: every,
			})
			var sum float32
			for n := range steps {
				x := float32(rng.IntN(1000)) // sums are exact
				sum += x
				a, err := e.Step(ctx, weftclient.Tensors{"x": weftclient.FromSlice([]float32{x}, 1, 1)})
				if err != nil {
					t.Errorf("%s step %d: %v", name, n+1, err)
					return
				}
				if y, err := weftclient.Values[float32](a.Outputs["y"]); err != nil || y[0] != sum {
					t.Errorf("%s step %d: %v, want %v", name, n+1, y, sum)
				}
				progress[i].Add(1)
			}
			if err := e.End(ctx); err != nil {
				t.Errorf("%s ends: %v", name, err)
			}
		})
	}
	for k := range kills {
		for i := range progress { // none repeats steps still
			for progress[i].Load() < int64((k+1)*steps/(kills+1)) && ctx.Err() == nil && !t.Failed() {
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
		server.kill(t)
		server = startVictim(t, program, repository, address)
	}
	clients.Wait()
	server.kill(t)
	repeated := 0
	numbers.Range(func(name, last any) bool {
		again := int(last.(uint64)) - steps
		if repeated += again; again > kills*every {
			t.Errorf("%v repeated %d steps", name, again)
		}
		return true
	})
	if repeated == 0 {
		t.Error("no step was repeated: the kills came too late")
	}
	t.Logf("%d steps, the server was killed %d times, %d steps were repeated", robots*steps, kills, repeated)
}
