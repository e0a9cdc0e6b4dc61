package app

import (
	"runtime/debug"
	"testing"
)

// The collector is set for a server, and what the environment says wins.
func TestTuneCollector(t *testing.T) {
	const percent, limit = 123, 1 << 50
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	t.Setenv("GOGC", "123")
	t.Setenv("GOMEMLIMIT", "1024TiB")
	TuneCollector()
	if p, l := debug.SetGCPercent(percent), debug.SetMemoryLimit(-1); p != percent || l != limit {
		t.Errorf("the environment is set: %d %%, %d bytes", p, l)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	TuneCollector()
	if p, l := debug.SetGCPercent(percent), debug.SetMemoryLimit(-1); p != collectAfter || l >= limit || l < 1<<20 {
		t.Errorf("the environment is not set: %d %%, %d bytes", p, l)
	}
}
