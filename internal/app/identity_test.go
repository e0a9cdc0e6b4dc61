package app

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/access"
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
			dir, repository := t.TempDir(), t.TempDir()
			weftest.AddVersion(t, repository, "m", 1)
			weftest.SetManifest(t, repository, "m", "{synth: {base: 2ms, "+tensors+
				`}, batching: {mode: "off", max_queue: 8}, fairness: `+fairness+"}") // eight requests may wait
			tokens, lines := map[string]string{}, ""
			for _, name := range []string{"flooder", "modest"} {
				token, line := access.NewToken(name)
				tokens[name], lines = token, lines+line+"\n"
			}
			write(t, dir, "tokens.txt", lines)
			r := serveFrom(t, repository, func(a *App) {
				a.Access = write(t, dir, "access.yaml", `tokens: tokens.txt
roles: {all: {predict: ["*"], observe: ["*"]}}
identities:
  - {name: flooder, callers: ["token:flooder"], roles: [all]}
  - {name: modest, callers: ["token:modest"], roles: [all]}
`)
			})
			r.awaitReady(t)
			ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
			defer cancel()
			as := func(name string) context.Context {
				return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokens[name])
			}
			ask := func(name string) error {
				_, err := weftv1.NewPredictionServiceClient(r.conn).Predict(as(name), weftest.Request("m", 1))
				return err
			}
			const callers, asked = 40, 50
			var flood sync.WaitGroup
			full, over := make(chan struct{}), make(chan struct{})
			once := sync.OnceFunc(func() { close(full) })
			for range callers {
				flood.Go(func() {
					for !closed(over) && ctx.Err() == nil {
						if err := ask("flooder"); status.Code(err) == codes.ResourceExhausted {
							once()
						}
					}
				})
			}
			<-full
			refused := 0
			for range asked {
				switch err := ask("modest"); {
				case status.Code(err) == codes.ResourceExhausted:
					refused++
				case err != nil:
					t.Errorf("beside a flood: %v", err)
				}
			}
			state, err := weftv1.NewModelServiceClient(r.conn).GetSchedulerState(as("modest"),
				&weftv1.GetSchedulerStateRequest{})
			if err != nil {
				t.Fatal(err)
			}
			close(over)
			flood.Wait()
			if harmless != (refused == 0) {
				t.Errorf("beside a flood %d of %d requests are refused", refused, asked)
			}
			for _, name := range []string{"identity flooder", "identity modest"} {
				served := slices.ContainsFunc(state.GetState().GetFlows(), func(f *weftv1.SchedulerFlow) bool {
					return f.GetName() == name && f.GetChargedMs() > 0
				})
				if served != harmless {
					t.Errorf("%s got device time: %v, of the flows %+v", name, served, state.GetState().GetFlows())
				}
			}
		})
	}
}
