package execution

import (
	"cmp"
	"context"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/sharedsched"
)

// quarantine is the engine's process in which suspect jobs run, one at a time and with nothing else. Its pool keeps no
// buffers, because such runs are rare.
type quarantine struct {
	session engine.Session
	buffers pool
}

// HasQuarantine reports whether the engine has a process where suspects run by themselves.
func (u *Unit) HasQuarantine() bool { return u.quarantine != nil }

// Quarantine executes a job in the engine's quarantine, in executions of at most so many rows. It runs outside of
// the scheduler. It returns how long the runs took, without the wait for the process. An
// error of the kind engine.Crashed is the job's own fault. The unit must not be closed meanwhile.
func (u *Unit) Quarantine(ctx context.Context, j *Job, most int) (took time.Duration, err error) {
	q := u.quarantine
	buf := q.buffers.take()
	defer q.buffers.give(buf)
	for first := 0; first < j.Rows; first += most {
		rows := min(most, j.Rows-first)
		span := sharedsched.Span{Payload: j, First: first, Rows: rows}
		x := execution{ctx: ctx, unit: u, session: q.session, plan: u.Plan(), buf: buf}
		// It then runs as it came.
		if j.Plan != nil {
			x.plan = j.Plan
		}
		began := time.Now()
		if err = x.run([]part{{&span, j, first, rows}}, x.plan.Padded(rows)); err != nil {
			return took, err
		}
		took += cmp.Or(x.deviceTime, time.Since(began)-buf.batch.Waited)
	}
	return took, nil
}
