package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
)

// TestShadowBesidePrimary shows every request of version 1 to version 2, which costs as much, and compares with the same requests
// without a shadow: under saturation, when there is no spare time, and with half of the time to spare. (At a third of the capacity
// there would be none either: a device that never waits is busy with small batches.)
func TestShadowBesidePrimary(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		later time.Duration // that p99 may be
		done  float64       // part of the requests that the shadow must be shown, at least
	}{
		{rate: 1500, later: 3 * limit / 100},
		{rate: 20, later: limit / 10, done: 0.95}, // one batch of the shadow, a tenth of what is wanted
	} {
		alone, _ := besideShadow(t, c.rate, false)
		beside, s := besideShadow(t, c.rate, true)
		t.Logf("%.0f/s: %d of %d in time beside a shadow, %d without; p99 %v and %v; shadow: %d offered, %d done, %d dropped", c.rate,
			beside.within(limit), len(beside), alone.within(limit), beside.quantile(0.99), alone.quantile(0.99), s.Offered, s.Done, s.Dropped)
		if got, want := beside.within(limit), alone.within(limit); float64(got) < 0.97*float64(want) {
			t.Errorf("%.0f/s: %d answers in time beside a shadow, %d without", c.rate, got, want)
		}
		if got, want := beside.quantile(0.99), alone.quantile(0.99); got > want+c.later {
			t.Errorf("%.0f/s: p99 %v beside a shadow, %v without", c.rate, got, want)
		}
		if s.Offered != int64(beside.within(time.Hour)) || s.Offered != s.Done+s.Dropped+s.Failed || s.Pending != 0 || s.Failed != 0 {
			t.Errorf("%.0f/s: %d requests were answered; the shadow counts %+v", c.rate, beside.within(time.Hour), s)
		}
		if float64(s.Done) < c.done*float64(s.Offered) {
			t.Errorf("%.0f/s: the shadow was shown %d of %d requests although there was time", c.rate, s.Done, s.Offered)
		}
	}
}

// besideShadow plays 20 s of requests, with a shadow or without, and returns what became of them and what the shadow did.
func besideShadow(t *testing.T, rate float64, shadowed bool) (c calls, s shadow.Summary) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		repo := t.TempDir()
		addModel(t, repo, "standard", standard+"\nversions: {policy: all}")
		if err := os.MkdirAll(filepath.Join(repo, "standard", "2"), 0o755); err != nil {
			t.Fatal(err)
		}
		device := synth.NewDevice()
		h := assemble(t, repo, "synth", func(_ context.Context, _ modelrepo.Version, m *modelrepo.Manifest) (host.Opened, error) {
			session, err := synth.Open(synth.Options{Base: time.Duration(m.Synth.Base), PerRow: time.Duration(m.Synth.PerRow), Device: device})
			return host.Opened{Session: session, Device: "synth", Provider: "synth"}, err
		})
		mirror := shadow.New(shadow.Config{Models: h.host, MaxPending: 2000})
		versions := h.host.Snapshot().Model("standard")
		inputs := []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1, 4}, Data: make([]byte, 16)}}
		c = run(t.Context(), func(ctx context.Context, _ *load) error {
			end, _ := ctx.Deadline()
			call := &catalog.Call{Version: versions.Version(1), Rows: 1, Inputs: inputs, Limit: end}
			err := h.host.Predict(ctx, call)
			if err == nil && shadowed {
				mirror.Offer(shadow.Offer{Primary: call, Shadows: []shadow.Target{{Version: versions.Version(2)}}})
			}
			return err
		}, []load{{model: "standard", course: steady(rate, 20*time.Second), limit: limit, seed: 7}})[0]
		if err := mirror.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, found := range mirror.Summaries("standard") {
			s = found
		}
	})
	return c, s
}
