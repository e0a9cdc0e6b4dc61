package catalog

import "testing"

func TestPhrase(t *testing.T) {
	for want, l := range map[string]LoadProgress{
		"waiting for its turn":          {},
		"copying files 1.5 of 300.0 MB": {Stage: StageCopying, Done: 15e5, Of: 3e8},
		"opening the session":           {Stage: StageOpening},
		"proving batching 12 of 40":     {Stage: StageProving, Done: 12, Of: 40},
		"warming up 0 of 3":             {Stage: StageWarmingUp, Of: 3},
		"warming up":                    {Stage: StageWarmingUp},
	} {
		if got := l.Phrase(); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}
