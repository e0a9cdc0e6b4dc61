package placement_test

import (
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/fleet/placement"
)

// steps is so many seconds alike, and the decision that the last of them must make; all before it must decide nothing.
type steps struct {
	seconds int
	fare    placement.Fare
	want    int
}

func TestScaler(t *testing.T) {
	refusing := placement.Fare{Replicas: 1, Refused: 1, Used: 1, Spare: 0.9}
	waiting := placement.Fare{Replicas: 1, Waiting: 100 * time.Millisecond, Used: 1, Spare: 0.5}
	busy := placement.Fare{Replicas: 2, Waiting: 99 * time.Millisecond, Used: 1.8, Spare: 1}
	calm := placement.Fare{Replicas: 2, Used: 0.5}
	full := refusing
	full.Spare = 0.49
	for name, script := range map[string][]steps{
		"refusals":                  {{3, refusing, 1}},
		"much waits":                {{3, waiting, 1}},
		"not for a moment":          {{2, refusing, 0}, {1, busy, 0}, {2, refusing, 0}, {1, waiting, 1}},
		"no room elsewhere":         {{100, full, 0}, {1, refusing, 1}},
		"busy is well":              {{1000, busy, 0}},
		"quiet for long":            {{60, calm, -1}, {60, calm, -1}},
		"quiet with a busy moment":  {{59, calm, 0}, {1, busy, 0}, {60, calm, -1}},
		"one more begins anew":      {{3, refusing, 1}, {3, refusing, 1}},
		"what remains must suffice": {{1000, placement.Fare{Replicas: 2, Used: 0.51}, 0}},
		"one is the least":          {{1000, placement.Fare{Replicas: 1}, 0}},
		"three with work for one":   {{60, placement.Fare{Replicas: 3, Used: 1}, -1}},
		"a refusal is not quiet": {
			{59, calm, 0},
			{1, placement.Fare{Replicas: 2, Refused: 1, Spare: 0}, 0},
			{59, calm, 0},
		},
	} {
		var s placement.Scaler
		for at, step := range script {
			for n := range step.seconds {
				want := 0
				if n == step.seconds-1 {
					want = step.want
				}
				got := s.Tick(step.fare)
				if got != want {
					t.Errorf("%s: step %d, second %d: %d, want %d", name, at, n, got, want)
				}
				if asks := step.fare.Refused > 0 || step.fare.Waiting >= 100*time.Millisecond; s.Hot() != (asks && got == 0) {
					t.Errorf("%s: step %d, second %d: hot %v", name, at, n, s.Hot())
				}
			}
		}
	}
}
