package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// TestFloodOfAnIdentity: on a server that one identity floods, so that as many of its requests wait as may, each
// request of another is answered in time. Where the fairness is by version, the flood has the others refused: so it is
// one.
func TestFloodOfAnIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a second")
	}
	for fairness, harmless := range map[string]bool{"identity": true, "version": false} {
		t.Run(fairness, func(t *testing.T) {
			h, client := serveCallers(t, "fairness: "+fairness)
			ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
			defer cancel()
			const callers, asked = 40, 50
			var flood sync.WaitGroup
			full, over := make(chan struct{}), make(chan struct{})
			once := sync.OnceFunc(func() { close(full) })
			for range callers {
				flood.Go(func() {
					for !closed(over) && ctx.Err() == nil {
						if err := client.ask(ctx, "flooder"); status.Code(err) == codes.ResourceExhausted {
							once()
						}
					}
				})
			}
			<-full
			refused := 0
			for range asked {
				switch err := client.ask(ctx, "modest"); {
				case status.Code(err) == codes.ResourceExhausted:
					refused++
				case err != nil:
					t.Errorf("beside a flood: %v", err)
				}
			}
			state := h.scheduler.State()
			close(over)
			flood.Wait()
			if harmless != (refused == 0) {
				t.Errorf("beside a flood %d of %d requests are refused", refused, asked)
			}
			for _, name := range []string{"identity flooder", "identity modest"} {
				served := slices.ContainsFunc(state.Flows, func(f sharedsched.FlowState) bool {
					return f.Name == name && f.Served > 0
				})
				if served != harmless {
					t.Errorf("%s got device time: %v, of the flows %+v", name, served, state.Flows)
				}
			}
		})
	}
}

// callerKey is the header in which requests name their callers.
const callerKey = "x-caller"

// callers are models whose calls have the callers that the headers of their requests name.
type callers struct{ predict.Models }

func (c callers) Predict(ctx context.Context, call *catalog.Call) error {
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md.Get(callerKey)) == 1 {
		call.Caller = &catalog.Caller{Name: md.Get(callerKey)[0]}
	}
	return c.Models.Predict(ctx, call)
}

// callerClient asks for predictions in a caller's name.
type callerClient struct{ weftv1.PredictionServiceClient }

func (c callerClient) ask(ctx context.Context, name string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, callerKey, name)
	_, err := c.Predict(ctx, weftest.Request("m", 1))
	return err
}

// serveCallers serves a model, for which eight requests may wait, to callers with names.
func serveCallers(t *testing.T, manifest string) (*house, callerClient) {
	t.Helper()
	repository, log := t.TempDir(), slog.New(slog.DiscardHandler)
	weftest.AddVersion(t, repository, "m", 1)
	weftest.SetManifest(t, repository, "m",
		"{synth: {base: 2ms, "+tensors+`}, batching: {mode: "off", max_queue: 8}, `+manifest+"}")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	settings := config.DefaultServer()
	var edge *server.Server
	h, err := newHouse(&settings, log, nil, host.Config{
		OnChange: func(*catalog.Snapshot) { edge.ModelsChanged() },
		LastUse:  func(model string, version int64) time.Time { return edge.Router().LastUse(model, version) },
	}, shell.Options{})
	check(err)
	memory := &tensor.Recycler{}
	edge = server.New(server.Config{Memory: memory, Logger: log}, callers{h.models}, h.scheduler)
	g := grpc.NewServer(transport.Options(int(settings.MaxMessageBytes), memory)...)
	edge.Register(g)
	listener, err := listen(t.Context(), "listen", "127.0.0.1:0")
	check(err)
	_, listing, err := scan(&Settings{Repositories: []string{repository}}, log)
	check(err)
	h.models.Follow(listing)
	check(h.models.Settled(t.Context()))
	parts := []lifecycle.Part{
		grpcPart(listener, edge, g, h.scheduler.Hurry, h.scheduler.Abandon, h.end, log),
		{Name: "scheduler and models", Stop: h.close},
	}
	ended := make(chan error, 1)
	go func() { ended <- parts[0].Run() }()
	conn, err := weftest.Dial(listener.Addr().String())
	check(err)
	t.Cleanup(func() {
		conn.Close()
		for _, p := range parts {
			check(p.Stop(context.WithoutCancel(t.Context())))
		}
		check(<-ended)
	})
	return h, callerClient{weftv1.NewPredictionServiceClient(conn)}
}
