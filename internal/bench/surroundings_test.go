package bench

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/server/transport"
)

// surroundings are all that the program has around a house.
type surroundings struct {
	metrics  *telemetry.Telemetry
	models   telemetry.Models // with their answers measured
	mirror   *shadow.Mirror
	rollouts *rollout.Manager
	memory   *tensor.Recycler
}

// newSurroundings returns those of a house in which models answer.
func newSurroundings(tb testing.TB, h *house, models telemetry.Models) *surroundings {
	tb.Helper()
	t, err := telemetry.New(tb.Context(), telemetry.Config{
		Slot: func(*catalog.Model, *catalog.Version) string { return "" },
	})
	if err != nil {
		tb.Fatal(err)
	}
	watched, err := t.Watch(models, h.sched)
	if err != nil {
		tb.Fatal(err)
	}
	mirror := shadow.New(shadow.Config{Models: models})
	tb.Cleanup(func() {
		if err := mirror.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return &surroundings{
		metrics: t, models: watched, mirror: mirror, rollouts: rollout.New(rollout.Config{Traffic: h.host}),
		memory: &tensor.Recycler{},
	}
}

// serve serves the house and returns a connection to it.
func (s *surroundings) serve(tb testing.TB, h *house) *grpc.ClientConn {
	tb.Helper()
	h.metrics.Store(s.metrics)
	edge := server.New(server.Config{
		Observer: s.metrics, Memory: s.memory, Shadows: s.mirror, Rollouts: s.rollouts, Scarce: h.sched.Scarce,
	}, s.models, h.sched)
	return listen(tb, edge.Register, append(
		transport.Options(transport.DefaultMaxMessageBytes, s.memory),
		edge.Options(insecure.NewCredentials())...)...)
}
