package serving

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
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
		oldest, next := first.find(killer(0)).killer, first.find(killer(1)).killer
		if oldest != nil || next == nil ||
			first.provenCrashes().Remembered != maxKillers {
			t.Errorf("after %d killers: %+v", maxKillers+1, first.provenCrashes())
		}
		untried := func(v *Version, i int, err error) {
			v.shared.killers.removeLocked(&trial{of: v.origin(), digest: digest(killer(i)), err: err, callers: 1})
		}
		for i := range maxKillers + 1 {
			untried(first, i, catalog.ErrUntried)
		}
		if f := first.find(killer(0)); f.suspect != nil {
			t.Errorf("after %d suspects: %+v", maxKillers+1, f)
		}
		if f := first.find(killer(maxKillers + 1)); f != (found{}) {
			t.Errorf("of another one is known: %+v", f)
		}
		for i := range maxKillers + 1 {
			untried(first, i, nil)
		}
		if mine := first.shared.killers.of[first.origin()]; len(mine.suspects.order)+len(mine.suspects.of) > 0 {
			t.Errorf("once they were answered: %+v", mine.suspects)
		}
		second := version(1)
		untried(second, 0, catalog.ErrUntried)
		if f := second.find(killer(0)); !errors.Is(f.suspect, catalog.ErrUntried) {
			t.Errorf("a suspect: %+v", f)
		}
		untried(second, 0, nil)
		if f := second.find(killer(0)); f != (found{}) || len(shared.killers.of) != 1 {
			t.Errorf("a suspect that was answered: %+v", f)
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

// TestSuspectsAreForgotten after a while, and before any that was proven.
func TestSuspectsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &Shared{}
		inputs := []tensor.Tensor{{Data: []byte{1}}}
		version := func(number int64) *Version { return &Version{Model: "m", Number: number, shared: shared} }
		untried := func(v *Version) {
			shared.killers.removeLocked(&trial{of: v.origin(), digest: digest(inputs), err: catalog.ErrUntried, callers: 1})
		}
		first := version(0)
		untried(first)
		time.Sleep(10*time.Minute - 1)
		if first.find(inputs).suspect == nil {
			t.Error("a suspect is forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		if f := first.find(inputs); f != (found{}) || shared.killers.some.Load() {
			t.Errorf("a suspect is remembered for ever: %+v", f)
		}
		first.kill(digest(inputs), errors.New("SIGFPE"))
		for number := range int64(2 * maxKilled) {
			time.Sleep(time.Millisecond)
			untried(version(1 + number))
		}
		if first.find(inputs).killer == nil {
			t.Error("suspects of other versions made a killer be forgotten")
		}
	})
}
