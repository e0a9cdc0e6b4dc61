//go:build linux

package poison

import (
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
)

// TestKills kills worker processes under load, at random moments: no answer is lost, and nothing is left of the dead.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes again and again")
	}
	together(t)
	kills := weftest.Times(4, 20)
	s := serve(t, addInnocents(t, innocents))
	l := callInnocents(s, 2)
	l.more(20)
	l.stop()
	before := s.settled()
	l = callInnocents(s, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	var waits []time.Duration
	for n := 0; n < kills; {
		l.more(1)
		l.next(rng.IntN(40))
		all := s.workers()
		if len(all) == 0 {
			continue
		}
		start := time.Now()
		if unix.Kill(all[rng.IntN(len(all))], unix.SIGKILL) == nil {
			n++
		}
		l.more(1)
		waits = append(waits, l.longest(start, time.Now()))
	}
	answers := l.stop()
	after := s.settled()
	t.Logf("%d kills, %d answers, %d deaths of the worker; the longest wait around each: %s", kills, answers,
		s.event("worker_died"), spread(waits))
	t.Logf("before: %+v; after: %+v", before, after)
	if lost := l.lost.Load(); lost > 0 {
		t.Errorf("%d of %d answers were lost or wrong", lost, answers)
	}
	// The heap of the server grows with its load, and its threads with what blocks; a leak adds to each kill.
	const slack = 20
	if after.Files > before.Files+slack || after.Shared > before.Shared+slack || after.Maps > before.Maps+5*slack ||
		after.Goroutines > before.Goroutines+slack || after.Workers > atRest {
		t.Errorf("after %d kills the server holds %+v, before %+v", kills, after, before)
	}
}

// atRest is how many workers a server with one device has that nobody asks: its worker, and a spare one.
const atRest = 2

// settled returns what the server holds at rest: when it has held as much for half a second.
func (s *server) settled() (h holdings) {
	s.t.Helper()
	again := time.NewTicker(100 * time.Millisecond) // nothing tells when the server is at rest
	defer again.Stop()
	for same, looks := 0, 0; (same < 5 || h.Workers > atRest) && looks < 300; looks++ {
		now := s.holdings()
		if same++; now != h {
			h, same = now, 0
		}
		<-again.C
	}
	return h
}
