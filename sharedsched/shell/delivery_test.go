package shell

import (
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// TestDelivery: what is kept before a limit follows what answers take to be delivered, sooner up than down, and is
// never more than an eighth of the time that is left.
func TestDelivery(t *testing.T) {
	const ms = sharedsched.Time(time.Millisecond)
	var d delivery
	if at := d.before(50*ms, 10*ms); at != 50*ms {
		t.Errorf("nothing was learnt, and a limit of 50 ms becomes %v", time.Duration(at))
	}
	for range 20 {
		d.took(4 * time.Millisecond)
	}
	if at := d.before(50*ms, 10*ms); at < 46*ms || at > 46*ms+ms/10 {
		t.Errorf("answers take 4 ms, and a limit of 50 ms becomes %v", time.Duration(at))
	}
	for range 20 {
		d.took(0)
	}
	if at := d.before(50*ms, 10*ms); at < 47*ms || at > 48*ms {
		t.Errorf("20 answers took no time, and a limit of 50 ms becomes %v", time.Duration(at))
	}
	for limit, want := range map[sharedsched.Time]sharedsched.Time{
		18 * ms: 17 * ms, 10 * ms: 10 * ms, 9 * ms: 9 * ms, sharedsched.Never: sharedsched.Never,
	} {
		if at := d.before(limit, 10*ms); at != want {
			t.Errorf("at 10 ms a limit of %v becomes %v, want %v", time.Duration(limit), time.Duration(at),
				time.Duration(want))
		}
	}
}
