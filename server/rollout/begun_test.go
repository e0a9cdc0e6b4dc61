package rollout

import (
	"testing"
	"time"
)

// TestBeginningsWaitForNobody: a request that begins an episode does not take the lock under which a look sorts; the
// next look counts the episodes that began, each once.
func TestBeginningsWaitForNobody(t *testing.T) {
	r := &run{Rollout: Rollout{Plan: Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 2}, State: Running}}
	since := time.Unix(100, 0)
	r.strata = []*stratum{{since: since}}
	m := &Manager{runs: map[string]*run{"m": r}}
	m.counters.Store(&map[version]*counter{{"m", 1}: {}, {"m", 2}: {}})

	m.mu.Lock()                              // as a look does, for as long as that takes
	m.Begun("m", 1, since.Add(-time.Second)) // before the rollout
	m.Begun("m", 1, since)
	m.Begun("m", 2, since.Add(time.Second))
	m.Begun("m", 2, since.Add(2*time.Second))
	m.Begun("m", 3, since)
	m.Begun("other", 1, since)
	for range 2 {
		m.countBegunLocked()
	}
	m.mu.Unlock()
	if b, c := r.strata[0].episodes[baseline].begun, r.strata[0].episodes[candidate].begun; b != 1 || c != 2 {
		t.Errorf("%d episodes of the baseline and %d of the candidate began, want 1 and 2", b, c)
	}
}
