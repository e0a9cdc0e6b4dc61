package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// repeater is a scheduler that makes a batch of n times the same task and gives the caller an error; a task that is to
// run alone does.
type repeater struct {
	host.Scheduler // nil
	host           *host.Host
	n              int
	spans          []sharedsched.Span
}

var errMeasured = errors.New("measured")

func (*repeater) AddFlow(string, string, float64) (sharedsched.FlowID, error) { return 0, nil }
func (*repeater) RemoveFlow(sharedsched.FlowID)                               {}
func (*repeater) AddVersion(string, sharedsched.FlowID, sharedsched.Settings) (sharedsched.VersionID, error) {
	return 0, nil
}
func (*repeater) Configure(sharedsched.VersionID, sharedsched.Settings) error { return nil }
func (*repeater) RemoveVersion(context.Context, sharedsched.VersionID) error  { return nil }

func (r *repeater) Do(_ context.Context, v sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	n, err := r.n, errMeasured
	if t.Alone {
		n, err = 1, nil
	}
	r.spans = r.spans[:0]
	for range n {
		r.spans = append(r.spans, sharedsched.Span{Payload: t.Payload, Rows: t.Rows})
	}
	r.host.Execute(&sharedsched.Batch{Version: v, Spans: r.spans, Rows: n * t.Rows, Padded: n * t.Rows, Alone: t.Alone})
	return sharedsched.Outcome{Compute: 1}, err
}

// silent is a session that keeps no list of its runs.
type silent struct{ *fake }

func (s silent) Run(_ context.Context, b *tensor.Batch) error { return s.Answer(b) }

// BenchmarkBatch measures the host's overhead over a run: assembling n requests of 48 values, and scattering 12 values
// to each.
func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("requests=%d", n), func(b *testing.B) {
			f := &fake{
				Declared: tensor.Signature{
					Inputs:  []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, 48)},
					Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, 12)},
				},
			}
			f.Answer = func(b *tensor.Batch) error {
				rows := b.Inputs[0].Shape[0]
				shape := [2]int64{rows, 12}
				for i := range rows {
					copy(b.Output(0, tensor.Float32, shape[:], int(rows)*48)[48*i:], b.Inputs[0].Data[192*i:][:48])
				}
				return nil
			}
			w := &world{engines: map[string]any{}, logs: &weftest.Log{}}
			s := &repeater{n: n}
			w.Host = host.New(host.Config{Open: w.open, Logger: slog.New(w.logs)})
			s.host = w.Host
			w.Attach(s)
			w.add("m", 1, func(context.Context) (engine.Opened, error) {
				return engine.Opened{Session: silent{f}, Device: "dev", Provider: "fake"}, nil
			}, nil)
			if err := w.Reconcile(b.Context(), w.listing); err != nil {
				b.Fatal(err)
			}
			v := w.Snapshot().Model("m").Version(1)
			if !v.Batching.Batched {
				b.Fatal(v.Batching.Reason)
			}
			input := floats(tensor.Shape{1, 48}, make([]float32, 48)...)
			b.ReportAllocs()
			for b.Loop() {
				c := catalog.Call{Version: v, Rows: 1, Inputs: []tensor.Tensor{input}}
				if err := w.Predict(b.Context(), &c); !errors.Is(err, errMeasured) {
					b.Fatal(err)
				}
			}
			if err := w.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
