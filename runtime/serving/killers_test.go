package serving

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestTheLatestKillersAreRemembered: of a version the latest, and of the versions those that were killed lately.
func TestTheLatestKillersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &Shared{}
		version := func(number int64) *Version { return &Version{Model: "m", Number: number, shared: shared} }
		killer := func(i int) []tensor.Tensor { return []tensor.Tensor{{Data: []byte{byte(i), byte(i >> 8)}}} }
		kill := func(v *Version, i int) {
			time.Sleep(time.Second)
			v.kill(digest(killer(i)), errors.New("SIGFPE"))
		}
		first := version(0)
		for i := range maxKillers + 1 {
			kill(first, i)
		}
		_, oldest := first.find(killer(0))
		_, next := first.find(killer(1))
		if oldest != nil || next == nil ||
			first.provenCrashes().Remembered != maxKillers {
			t.Errorf("after %d killers: %+v", maxKillers+1, first.provenCrashes())
		}
		for number := range int64(maxKilled - 1) {
			kill(version(1+number), 0)
		}
		kill(first, maxKillers+1)
		kill(version(maxKilled), 0)
		for number, want := range map[int64]int{0: maxKillers, 1: 0, 2: 1, maxKilled: 1} {
			if n := version(number).provenCrashes().Remembered; n != want {
				t.Errorf("version %d: %d are remembered, want %d", number, n, want)
			}
		}
	})
}
