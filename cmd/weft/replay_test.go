package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/replay"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

func TestReplayExitStatuses(t *testing.T) {
	for verdict, want := range map[rollout.Verdict]int{rollout.Hold: 3, rollout.Rollback: 4} {
		if got := statusOf(fmt.Errorf("replay: %w", &replay.VerdictError{Verdict: verdict})); got != want {
			t.Errorf("%v: exit status %d, want %d", verdict, got, want)
		}
	}
}

// TestPrintRollout says in one sentence how the versions compare, while a rollout runs and after it, and that ids of
// episodes repeat.
func TestPrintRollout(t *testing.T) {
	const summary = "v2 is no worse on errors, better on reward; 62 episodes"
	for _, state := range []weftv1.RolloutState{
		weftv1.RolloutState_ROLLOUT_STATE_RUNNING, weftv1.RolloutState_ROLLOUT_STATE_PROMOTED,
	} {
		r := &weftv1.Rollout{
			Model: "m", BaselineVersion: 1, CandidateVersion: 2, State: state, Report: &weftv1.GateReport{
				Summary: summary,
				Excluded: []*weftv1.EpisodeExclusion{
					{Reason: "lost", Baseline: 7}, {Reason: "same_draw", Baseline: 9, Candidate: 3},
				},
			},
		}
		var out strings.Builder
		if err := printRollout(&out, r); err != nil || !strings.Contains(out.String(), "\n"+summary+"\n") {
			t.Errorf("%v: it prints %q, %v; want a line %q", state, out.String(), err, summary)
		}
		if !strings.Contains(out.String(), "\n12 episodes had an episode_id that was used before, ") {
			t.Errorf("%v: it prints %q; want that ids of episodes repeat", state, out.String())
		}
		out.Reset()
		r.Report.Summary = ""
		if err := printRollout(&out, r); err != nil || strings.Contains(out.String(), "\n\n") {
			t.Errorf("%v without a summary: it prints %q, %v; want no empty line", state, out.String(), err)
		}
	}
}
