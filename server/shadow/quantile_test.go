package shadow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/shadow"
)

// computed returns the summary of requests that took n, n-1 ... 1 µs, and their shadows twice as long. In this order a
// sample that is not even over time shows.
func computed(t *testing.T, n int) shadow.Summary {
	t.Helper()
	var got shadow.Summary
	synctest.Test(t, func(t *testing.T) {
		done := repeat()
		var took time.Duration
		m := shadow.New(quiet(shadow.Config{Models: modelsFunc(func(ctx context.Context, call *catalog.Call) error {
			defer func() { call.Outcome.Compute = 2 * took }()
			return done(ctx, call)
		})}))
		for i := range n {
			o := offerOf(3)
			took = time.Duration(n-i) * time.Microsecond
			o.Primary.Outcome.Compute = took
			m.Offer(o)
			synctest.Wait()
		}
		got = only(t, m)
	})
	return got
}

func TestComputeTimesOfFew(t *testing.T) {
	got := computed(t, 200)
	us := time.Microsecond
	want := [...]time.Duration{100 * us, 198 * us, 200 * us, 396 * us}
	have := [...]time.Duration{got.PrimaryComputeP50, got.PrimaryComputeP99, got.ShadowComputeP50, got.ShadowComputeP99}
	if have != want {
		t.Errorf("got %v, want %v", have, want)
	}
}

// TestComputeTimesOfMany has more than the sample holds: it must be even, of the same requests for both, and the same
// each time.
func TestComputeTimesOfMany(t *testing.T) {
	const n = 10_000
	got := computed(t, n)
	if diff := cmp.Diff(got, computed(t, n)); diff != "" {
		t.Errorf("the same again gives another result\n%s", diff)
	}
	if got.ShadowComputeP50 != 2*got.PrimaryComputeP50 || got.ShadowComputeP99 != 2*got.PrimaryComputeP99 {
		t.Errorf("not of the same requests: %+v", got)
	}
	// Four standard errors of a quantile of 1024 samples.
	middle, high := float64(got.PrimaryComputeP50.Microseconds())/n, float64(got.PrimaryComputeP99.Microseconds())/n
	if middle < 0.5-0.0625 || middle > 0.5+0.0625 || high < 0.99-0.0125 || high > 0.99+0.0125 {
		t.Errorf("the median is the quantile %v, the 99th percentile %v", middle, high)
	}
}
