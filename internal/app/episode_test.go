package app

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// recurrentPolicy takes x and h, and gives y and hn.
func recurrentPolicy(inputs, state int) []byte {
	rng := rand.New(rand.NewPCG(4, 1))
	random := func(n int, scale float32) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = scale * float32(rng.NormFloat64())
		}
		return all
	}
	g := onnxgraph.New("recurrent").Input("x", onnxgraph.Float, "batch", inputs)
	g.Input("h", onnxgraph.Float, "batch", state)
	g.InitFloats("w", []int64{int64(inputs + state), int64(state)}, random((inputs+state)*state, 0.3)...)
	g.InitFloats("b", []int64{int64(state)}, random(state, 0.1)...)
	g.InitFloats("v", []int64{int64(state), 2}, random(state*2, 0.5)...)
	g.Node("Concat", []string{"x", "h"}, []string{"xh"}, onnxgraph.IntAttr("axis", 1))
	g.Node("Gemm", []string{"xh", "w", "b"}, []string{"sum"}).Node("Tanh", []string{"sum"}, []string{"hn"})
	g.Node("MatMul", []string{"hn", "v"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, "batch", 2).Output("hn", onnxgraph.Float, "batch", state).Marshal()
}

func rawFloats(shape []int64, values ...float32) *weftv1.Tensor {
	t := &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: shape}
	for _, v := range values {
		t.Raw = binary.LittleEndian.AppendUint32(t.GetRaw(), math.Float32bits(v))
	}
	return t
}

// stepped is an episode as its client saw it.
type stepped struct {
	x [][]float32
	y [][]byte
}

// TestEpisodesOutliveWorkers: the state of episodes is in the server. While the processes that run the model are
// killed, and steps are given up, sent again and doubled, each answer is that of the model alone.
func TestEpisodesOutliveWorkers(t *testing.T) {
	episodes, steps := 24, 40
	if os.Getenv("WEFT_LONG") != "" {
		episodes, steps = 1000, 1000
	}
	root := t.TempDir()
	dir := filepath.Join(root, "policy", "1")
	for path, content := range map[string][]byte{
		filepath.Join(dir, "model.onnx"):            recurrentPolicy(4, 16),
		filepath.Join(root, "policy", "model.yaml"): []byte("state: {pairs: [{input: h, output: hn}]}\n"),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := serveFrom(t, root, func(a *App) { a.Isolation = config.IsolateDevice })
	client := weftv1.NewPredictionServiceClient(r.conn)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()

	var done atomic.Int64
	var kills sync.WaitGroup
	kills.Go(func() { // after each twentieth of the steps
		for n := range 19 {
			for done.Load() < int64((n+1)*episodes*steps/20) && ctx.Err() == nil {
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
				}
			}
			for _, pid := range weftest.Children(os.Getpid()) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
			}
		}
	})
	all := make([]stepped, episodes)
	var clients sync.WaitGroup
	for e := range all {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(e), 42))
			for i := range steps {
				q := &weftv1.PredictRequest{
					Model: &weftv1.ModelSpec{Name: "policy"}, EpisodeId: fmt.Sprintf("robot %d", e), Step: uint64(i + 1),
					BeginEpisode: i == 0, EndOfEpisode: i == steps-1, OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
				}
				x := []float32{float32(e), rng.Float32(), rng.Float32(), rng.Float32()}
				q.Inputs = map[string]*weftv1.Tensor{"x": rawFloats([]int64{1, 4}, x...)}
				y := insist(ctx, t, client, q, rng)
				all[e].x, all[e].y = append(all[e].x, x), append(all[e].y, y)
				done.Add(1)
			}
		})
	}
	clients.Wait()
	cancelKills := ctx.Err()
	kills.Wait()
	if cancelKills != nil {
		t.Fatal(cancelKills)
	}
	for e, s := range all {
		clients.Go(func() {
			if err := s.alone(ctx, client); err != nil {
				t.Errorf("episode %d: %v", e, err)
			}
		})
	}
	clients.Wait()
	t.Logf("%d steps of %d episodes, while processes were killed 19 times", episodes*steps, episodes)
}

// alone compares the answers with those of requests that bring the state themselves.
func (s *stepped) alone(ctx context.Context, client weftv1.PredictionServiceClient) error {
	h := rawFloats([]int64{1, 16}, make([]float32, 16)...)
	for i, x := range s.x {
		a, err := client.Predict(ctx, &weftv1.PredictRequest{
			Model:          &weftv1.ModelSpec{Name: "policy"},
			Inputs:         map[string]*weftv1.Tensor{"x": rawFloats([]int64{1, 4}, x...), "h": h},
			OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
		})
		if err != nil {
			return err
		}
		h = a.GetOutputs()["hn"]
		want := a.GetOutputs()["y"].GetRaw()
		for k := 0; k < len(want); k += 4 {
			got := math.Float32frombits(binary.LittleEndian.Uint32(s.y[i][k:]))
			one := math.Float32frombits(binary.LittleEndian.Uint32(want[k:]))
			if math.Abs(float64(got-one)) > 1e-4 { // batches round, step after step
				return fmt.Errorf("step %d: %v, alone %v", i+1, got, one)
			}
		}
	}
	return nil
}

// insist sends a step until it is answered.
func insist(ctx context.Context, t *testing.T, client weftv1.PredictionServiceClient, q *weftv1.PredictRequest,
	rng *rand.Rand,
) []byte {
	for ctx.Err() == nil {
		once := ctx
		cancel := func() {}
		if rng.IntN(12) == 0 {
			once, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Microsecond)
		}
		doubled := make(chan []byte, 1)
		if rng.IntN(10) == 0 {
			go func() {
				a, _ := client.Predict(ctx, q)
				doubled <- a.GetOutputs()["y"].GetRaw()
			}()
		} else {
			doubled <- nil
		}
		a, err := client.Predict(once, q)
		cancel()
		second := <-doubled
		first := a.GetOutputs()["y"].GetRaw()
		switch c := status.Code(err); {
		case err == nil:
			if second != nil && string(first) != string(second) {
				t.Errorf("%s step %d: two answers to one step", q.GetEpisodeId(), q.GetStep())
			}
			return first
		case c == codes.NotFound, c == codes.FailedPrecondition, c == codes.InvalidArgument:
			t.Errorf("%s step %d: %v", q.GetEpisodeId(), q.GetStep(), err)
			return make([]byte, 8)
		}
	}
	return make([]byte, 8)
}
