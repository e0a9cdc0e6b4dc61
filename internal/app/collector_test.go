package app

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// The collector is set for a server, and what the environment says wins.
func TestTuneCollector(t *testing.T) {
	const limit = 1 << 50
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	defer func() { ballast = nil }()
	t.Setenv("GOGC", "123")
	t.Setenv("GOMEMLIMIT", "1024TiB")
	TuneCollector()
	if l := debug.SetMemoryLimit(-1); len(ballast) > 0 || l != limit {
		t.Errorf("the environment is set: ballast of %d bytes, limit of %d", len(ballast), l)
	}
	t.Setenv("GOGC", "")
	TuneCollector()
	if l := debug.SetMemoryLimit(-1); len(ballast) != ballastBytes || l != limit+ballastBytes {
		t.Errorf("a limit is set: ballast of %d bytes, limit of %d", len(ballast), l)
	}
	t.Setenv("GOMEMLIMIT", "")
	TuneCollector()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if l := debug.SetMemoryLimit(-1); m.HeapAlloc < ballastBytes || l >= limit || l < ballastBytes+1<<20 {
		t.Errorf("the environment is not set: heap of %d bytes, limit of %d", m.HeapAlloc, l)
	}
}
