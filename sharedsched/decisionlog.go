package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
)

// decisionLog remembers the latest decisions.
type decisionLog struct {
	ring [logSize]Decision
	n    uint64 // decisions ever
}

// next returns the place of the next decision, emptied. The oldest one gives way.
func (l *decisionLog) next() *Decision {
	d := &l.ring[l.n%logSize]
	l.n++
	*d = Decision{}
	return d
}

// batch remembers a batch that was just put in flight, and why it was its queue's turn.
func (l *decisionLog) batch(now Time, q *queue, b *Batch, ln *lane, fair *fairq.Queue, p pick) {
	d := l.next()
	d.At, d.Version, d.Name, d.Kind = now, b.Version, q.version.name, Ran
	d.Identity = q.flow.identity
	d.Flush, d.Tasks, d.Rows, d.Padded, d.Left, d.Bound = b.Reason, len(b.Spans), b.Rows, b.Padded, q.waiting, q.rest
	d.Estimate = ln.est
	d.Lead = fair.Start(fairq.Flow(q.flow.id)) - fair.Now()
	d.Rule, d.Slack, d.Demanding = p.rule, p.slack, p.demanding
}

// refusal remembers a task that was not admitted, with the numbers of its refusal.
func (l *decisionLog) refusal(now Time, v *version, r *Refusal, rows int) {
	d := l.next()
	d.At, d.Version, d.Name, d.Kind = now, v.id, v.name, Refused
	d.Refused, d.Rows, d.Identity = *r, rows, r.Identity
}

// drop remembers a task that is given up, before it is. needs is the time that an execution would have taken.
func (l *decisionLog) drop(now Time, v *version, t *task, why DropReason, needs time.Duration) {
	d := l.next()
	d.At, d.Version, d.Name, d.Kind = now, v.id, v.name, Dropped
	d.Identity = t.queue.flow.identity
	d.Rows, d.Waited = t.rows, now.Sub(t.arrival)
	d.Drop, d.Had, d.Needs = why, t.limit.Sub(now), needs
}

// latest returns the remembered decisions, the newest first.
func (l *decisionLog) latest() []Decision {
	n := min(l.n, logSize)
	out := make([]Decision, 0, n)
	for i := range n {
		out = append(out, l.ring[(l.n-1-i)%logSize])
	}
	return out
}
