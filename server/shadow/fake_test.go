package shadow_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

// modelsFunc is Models.
type modelsFunc func(ctx context.Context, call *catalog.Call) error

func (f modelsFunc) Predict(ctx context.Context, call *catalog.Call) error { return f(ctx, call) }

// events is an Observer that remembers.
type events struct {
	mu  sync.Mutex
	all []shadow.Event
}

func (e *events) ShadowDone(v shadow.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, v)
}

func (e *events) list() []shadow.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]shadow.Event(nil), e.all...)
}

func spec(name string, dtype tensor.DType, shape ...int64) tensor.Spec {
	return tensor.Spec{Name: name, DType: dtype, Shape: shape}
}

// policySignature: an observation and a goal become an action and a value.
func policySignature() *tensor.Signature {
	return &tensor.Signature{
		Inputs: []tensor.Spec{
			spec("observation", tensor.Float32, tensor.Unknown, 2),
			spec("goal", tensor.Float32, tensor.Unknown, 1),
		},
		Outputs: []tensor.Spec{
			spec("action", tensor.Float32, tensor.Unknown, 2),
			spec("value", tensor.Float32, tensor.Unknown),
		},
	}
}

func versionOf(number int64, s *tensor.Signature) *catalog.Version {
	return &catalog.Version{Model: "policy", Number: number, State: catalog.Ready, Signature: s}
}

// answered is a call of 1 row to version 1 that was answered; 12 bytes of inputs, 12 of results.
func answered() *catalog.Call {
	return &catalog.Call{
		Version: versionOf(1, policySignature()),
		Inputs: []tensor.Tensor{
			weftest.Floats(tensor.Shape{1, 2}, 1, 2),
			weftest.Floats(tensor.Shape{1, 1}, 3),
		},
		Rows: 1,
		Results: []tensor.Tensor{
			weftest.Floats(tensor.Shape{1, 2}, 4, 5),
			weftest.Floats(tensor.Shape{1}, 6),
		},
		Outcome: sharedsched.Outcome{Compute: 4 * time.Millisecond},
	}
}

func offerOf(shadows ...int64) shadow.Offer {
	o := shadow.Offer{Primary: answered(), Slot: "prod", RequestID: "r1", Episode: "e1"}
	for _, number := range shadows {
		o.Shadows = append(o.Shadows, shadow.Target{Version: versionOf(number, policySignature())})
	}
	return o
}

// repeat answers as the primary did.
func repeat() modelsFunc {
	same := answered()
	return func(_ context.Context, call *catalog.Call) error {
		for _, i := range call.Wanted {
			call.Results = append(call.Results, same.Results[i])
		}
		call.Outcome.Compute = 6 * time.Millisecond
		return nil
	}
}

// failing fails like err.
func failing(err error) modelsFunc {
	return func(context.Context, *catalog.Call) error { return err }
}

// held gives no answer until gate is closed or the time of the call is over.
func held(gate <-chan struct{}, then modelsFunc) modelsFunc {
	return func(ctx context.Context, call *catalog.Call) error {
		select {
		case <-gate:
			return then(ctx, call)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errModel = &catalog.ModelError{Model: "policy", Version: 3, Err: errors.New("no such row")}

func quiet(c shadow.Config) shadow.Config {
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

// counts is the part of a summary that adds up.
type counts struct{ Offered, Done, Dropped, Failed, Pending, Agreed int64 }

func countsOf(s shadow.Summary) counts {
	return counts{s.Offered, s.Done, s.Dropped, s.Failed, s.Pending, s.Agreed}
}

// only returns the one summary there is.
func only(t testing.TB, m *shadow.Mirror) shadow.Summary {
	t.Helper()
	all := m.Summaries("policy", shadow.Detail{})
	if len(all) != 1 {
		t.Fatalf("got %d summaries, want one", len(all))
	}
	return all[0]
}
