package main

import (
	"fmt"
	"testing"

	"github.com/weftserve/weft/internal/replay"
	"github.com/weftserve/weft/server/rollout"
)

func TestReplayExitStatuses(t *testing.T) {
	for verdict, want := range map[rollout.Verdict]int{rollout.Hold: 3, rollout.Rollback: 4} {
		if got := statusOf(fmt.Errorf("replay: %w", &replay.VerdictError{Verdict: verdict})); got != want {
			t.Errorf("%v: exit status %d, want %d", verdict, got, want)
		}
	}
}
