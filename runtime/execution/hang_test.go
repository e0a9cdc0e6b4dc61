package execution

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestHanging: a run hangs once it has taken a second and twice as long as the latest that went well; the first has
// longer.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := time.Duration(0)
		u, o := batched(func(b *tensor.Batch) error {
			time.Sleep(takes)
			if b.Inputs[0].Data[0] == '?' {
				panic("of the engine") // which fails the run, as '!' does
			}
			return echo(b)
		})
		for _, c := range []struct {
			takes, hangs, respite time.Duration
			value                 byte
		}{
			{takes: 11 * time.Second, hangs: 10 * time.Second, value: '!'}, // nothing is known of it, and it fails
			{takes: time.Millisecond, value: 'a'},
			{takes: 900 * time.Millisecond, value: 'a'},
			{takes: 3 * time.Second, hangs: 1800 * time.Millisecond, value: 'a'},
			{takes: 5 * time.Second, value: 'a'},
			{takes: 9 * time.Second, value: '!'},
			{takes: 9 * time.Second, value: '?'},
			{takes: 11 * time.Second, hangs: 10 * time.Second, value: '!'},
			{takes: time.Millisecond, value: 'a'},
			{takes: 4 * time.Second, hangs: time.Second, value: 'a', respite: 9 * time.Second},
			{takes: 5 * time.Second, value: 'a', respite: 2 * time.Second},
		} {
			takes = c.takes
			if got := u.Respite(); c.respite > 0 && got != c.respite {
				t.Errorf("a run of %v has %v more than until it hangs, want %v", c.takes, got, c.respite)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				together(u, c.value)
			}()
			if c.hangs > 0 {
				time.Sleep(c.hangs - 1)
				synctest.Wait()
				if u.Hanging() != 0 {
					t.Errorf("a run of %v hangs before %v", c.takes, c.hangs)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if u.Hanging() != 1 || o.hangs.Load() != 1 {
					t.Errorf("a run of %v does not hang after %v", c.takes, c.hangs)
				}
			} else {
				time.Sleep(c.takes - 1)
				synctest.Wait()
				if u.Hanging() != 0 {
					t.Errorf("a run of %v hangs", c.takes)
				}
			}
			<-done
			if u.Hanging() != 0 || o.hangs.Load() != 0 {
				t.Errorf("a run of %v hangs although it has ended", c.takes)
			}
		}
	})
}
