package shell

import (
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// delivery is how long an answer takes from the end of its batch until its caller goes on, which is nothing on an idle
// machine and milliseconds on a busy one. It is learnt, on the high side: it grows by a quarter of what an answer took
// longer, and shrinks by a 32nd of what it took less.
type delivery struct{ learnt atomic.Int64 }

func (d *delivery) took(t time.Duration) {
	was := time.Duration(d.learnt.Load())
	by := (t - was) / 32
	if t > was {
		by = (t - was) / 4
	}
	d.learnt.Store(int64(was + by)) // of two at once one may be lost
}

// before returns by when a batch is to end so that an answer is delivered at the limit; at most an eighth of the time
// that is left is kept for that, so that what is out of the ordinary shuts nobody out.
func (d *delivery) before(limit, now sharedsched.Time) sharedsched.Time {
	if limit <= now || limit == sharedsched.Never {
		return limit
	}
	return limit - min(sharedsched.Time(d.learnt.Load()), (limit-now)/8)
}
