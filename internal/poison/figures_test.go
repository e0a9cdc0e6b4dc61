//go:build linux

package poison

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// figures are what the innocents felt of each poison. They are reported, not judged.
type figures struct {
	lines []string
	waits map[string][]time.Duration // by kind: the longest wait of an innocent
}

func (f *figures) add(p *poison, state weftv1.VersionState, took, wait time.Duration, err error) {
	if f.waits == nil {
		f.waits = map[string][]time.Duration{}
	}
	if state == weftv1.VersionState_VERSION_STATE_READY {
		f.waits[p.kind] = append(f.waits[p.kind], wait)
	}
	text := strings.Join(strings.Fields(status.Convert(err).Message()), " ")
	f.lines = append(f.lines, fmt.Sprintf("%-28s %-8s %-5s %s: told after %v, innocents waited %v: %v %.160s",
		p.name, p.kind, p.where, strings.TrimPrefix(state.String(), "VERSION_STATE_"), took.Round(time.Millisecond),
		wait.Round(time.Millisecond), status.Code(err), text))
}

func (f *figures) report(t *testing.T, answers int64, s *server) {
	t.Helper()
	t.Logf("%d poisons, %d answers to innocents, %d processes died", len(f.lines), answers, s.event("worker_died"))
	for _, kind := range slices.Sorted(maps.Keys(f.waits)) {
		t.Logf("%s: the innocents' longest wait around each: %s", kind, spread(f.waits[kind]))
	}
	if weftest.Long() {
		t.Logf("each:\n%s", strings.Join(f.lines, "\n"))
	}
}

// spread describes durations.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	all = slices.Sorted(slices.Values(all))
	at := func(share float64) time.Duration {
		return all[min(len(all)-1, int(share*float64(len(all))))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("n=%d p50=%v p99=%v max=%v", len(all), at(0.5), at(0.99), at(1))
}
