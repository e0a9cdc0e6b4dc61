package bench

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
)

// TestShadowBesidePrimary shows every request of version 1 to version 2, which costs as much, and compares with the
// same requests without a shadow: under saturation, when there is no spare time and room for few; with half of the time
// to spare; and after bursts, when so much is to be shown at once that it would make large batches. (At a third of the
// capacity there would be no spare time either: a device that never waits is busy with small batches.)
func TestShadowBesidePrimary(t *testing.T) {
	for _, c := range []struct {
		name   string
		course []stretch
		from   time.Duration // of each second, from where on p99 is looked at
		later  time.Duration // that it may be
		done   float64       // part of the requests that the shadow must be shown, at least
	}{
		// p99 is close to the limit in any case: how many are in time is the better measure
		{"1500/s", steady(1500, 8*time.Second), 0, 3 * limit / 100, 0},
		{"20/s", steady(20, 20*time.Second), 0, limit / 10, 0.95}, // one batch of the shadow, a tenth of the limit
		{"bursts", bursts(10), 300 * time.Millisecond, limit / 10, 0.95},
	} {
		alone, _ := besideShadow(t, c.course, false)
		beside, s := besideShadow(t, c.course, true)
		got, want := beside.p99From(c.from), alone.p99From(c.from)
		t.Logf("%s: %d of %d in time beside a shadow, %d without; p99 %v and %v; shadow: %d offered, %d done, %d "+
			"dropped", c.name,
			beside.within(limit), len(beside), alone.within(limit), got, want, s.Offered, s.Done, s.Dropped)
		if got, want := beside.within(limit), alone.within(limit); float64(got) < 0.97*float64(want) {
			t.Errorf("%s: %d answers in time beside a shadow, %d without", c.name, got, want)
		}
		if got > want+c.later {
			t.Errorf("%s: p99 %v beside a shadow, %v without", c.name, got, want)
		}
		if s.Offered != int64(beside.within(time.Hour)) || s.Offered != s.Done+s.Dropped+s.Failed || s.Pending != 0 ||
			s.Failed != 0 {
			t.Errorf("%s: %d requests were answered; the shadow counts %+v", c.name, beside.within(time.Hour), s)
		}
		if float64(s.Done) < c.done*float64(s.Offered) {
			t.Errorf("%s: the shadow was shown %d of %d requests although there was time", c.name, s.Done, s.Offered)
		}
	}
}

// p99From is the 99th percentile of the answers to calls that came in the later part of a second, from some time of it
// on.
func (c calls) p99From(from time.Duration) time.Duration {
	return slices.DeleteFunc(slices.Clone(c), func(k call) bool { return k.at%time.Second < from }).quantile(0.99)
}

// bursts is seconds that begin with 200 requests within a tenth of a second and have 20 a second after that.
func bursts(n int) []stretch {
	var course []stretch
	for range n {
		course = append(course, stretch{2000, 100 * time.Millisecond}, stretch{20, 900 * time.Millisecond})
	}
	return course
}

// besideShadow plays requests, with a shadow or without, and returns them with their ends, and the shadow's summary.
func besideShadow(t *testing.T, course []stretch, shadowed bool) (c calls, s shadow.Summary) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		repo := t.TempDir()
		addModel(t, repo, "standard", standard+"\nversions: {policy: all}")
		if err := os.MkdirAll(filepath.Join(repo, "standard", "2"), 0o755); err != nil {
			t.Fatal(err)
		}
		h := assemble(t, repo, "synth", onSynth(synth.NewDevice()))
		mirror := shadow.New(shadow.Config{Models: h.host})
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
		}, []load{{model: "standard", course: course, limit: limit, seed: 7}})[0]
		if err := mirror.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, found := range mirror.Summaries("standard", shadow.Detail{}) {
			s = found
		}
	})
	return c, s
}
