package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
)

// The collector is set for a server, and what the environment says wins.
func TestTuneCollector(t *testing.T) {
	const limit = 1 << 50
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	defer tuned.Store(false)
	percent := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	t.Setenv("GOGC", "123")
	t.Setenv("GOMEMLIMIT", "1024TiB")
	TuneCollector()
	if p, l := percent(), debug.SetMemoryLimit(-1); p != 123 || l != limit {
		t.Errorf("the environment is set: %d percent, limit of %d", p, l)
	}
	t.Setenv("GOMEMLIMIT", "")
	TuneCollector()
	if p, l := percent(), debug.SetMemoryLimit(-1); p != 123 || l >= limit {
		t.Errorf("a percentage is set: %d percent, limit of %d", p, l)
	}
	t.Setenv("GOGC", "")
	TuneCollector()
	small := percent()
	if small < 200 {
		t.Errorf("a small heap may grow by %d percent", small)
	}
	tensors := make([]byte, 256<<20)
	weftest.Until(t, "a heap of tensors may not grow by as much", func() bool { return percent() < small/4 })
	runtime.KeepAlive(tensors)
}

func TestGarbage(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, scanned, roots uint64
		want                 int
	}{
		{0, 0, 0, 800},
		{1 * mib, 0, 0, 800},
		{32 * mib, 0, 0, 100},
		{32 * mib, 32 * mib, 0, 200},
		{32 * mib, 32 * mib, 64 * mib, 134},
		{32 * mib, 99 * mib, 0, 200},
		{320 * mib, 0, 0, 10},
		{1 << 40, 0, 0, 1},
		{1 << 40, 1 << 40, 0, 101},
	} {
		if got := percentOf(c.live, c.scanned, c.roots); got != c.want {
			t.Errorf("live %d, scanned %d, roots %d: %d percent instead of %d", c.live, c.scanned, c.roots, got, c.want)
		}
	}
}
