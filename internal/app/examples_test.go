package app

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/examples/plant"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/weftclient"
)

// TestExamplesRemember: where speeds are hidden, the example policies that remember hold the pole, with their memory in
// the server, and the one that cannot remember does not.
func TestExamplesRemember(t *testing.T) {
	const plays = 8
	r := serveFrom(t, "../../examples/models", func(a *App) { a.StateDir = config.StateDirNone }) // others try them, too
	r.awaitReady(t)
	client, err := weftclient.New(r.conn.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for model, remembers := range map[string]bool{
		"positions-gru": true, "positions-frames": true, "positions-memoryless": false,
	} {
		var all sync.WaitGroup
		var steps atomic.Int64
		for seed := range uint64(plays) {
			all.Go(func() {
				e := client.Episode(weftclient.Model(model), strconv.FormatUint(seed, 10), weftclient.EpisodeOptions{
					Outputs: []string{"action"},
				})
				plant.Return(plant.Positions.New(), seed, func(positions []float32) []float32 {
					steps.Add(1)
					a, err := e.Step(t.Context(), weftclient.Tensors{"observation": weftclient.FromSlice(positions, 1, 2)})
					if err != nil {
						t.Error(err)
						return []float32{0}
					}
					action, _ := weftclient.Values[float32](a.Outputs["action"])
					return action
				})
				if err := e.End(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		t.Logf("%s: %d of %d steps", model, steps.Load(), plays*plant.MaxSteps)
		if stood := float64(steps.Load()) / plays / plant.MaxSteps; stood > 0.7 != remembers {
			t.Errorf("%s stood for %.2f of the steps, and remembers: %v", model, stood, remembers)
		}
	}
}
