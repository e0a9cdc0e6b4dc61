package sharedsched

import (
	"fmt"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// Decision is one thing that Core decided, with the numbers that it decided by. It is kept as numbers and put into words only
// when somebody asks.
type Decision struct {
	At      Time
	Version VersionID
	Name    string // of the version
	Kind    DecisionKind

	// For Ran: the batch, the rows its queue kept waiting, and the fair queue at that moment.
	Flush               FlushReason
	Tasks, Rows, Padded int
	Left                int
	Estimate            cost.Estimate
	Lead                fairq.Tag // of the flow's tag over the virtual time, after the charge

	Refused Refusal       // for Refused
	Waited  time.Duration // for Dropped
}

// DecisionKind tells what was decided.
type DecisionKind uint8

// The kinds of decision.
const (
	Ran     DecisionKind = iota + 1 // a batch was started
	Refused                         // a task was not admitted
	Dropped                         // a task's limit passed in the queue
)

// String returns ran, refused or dropped.
func (k DecisionKind) String() string {
	return [...]string{"none", "ran", "refused", "dropped"}[k]
}

// String tells the decision and its reason in one line.
func (d Decision) String() string {
	switch d.Kind {
	case Ran:
		return fmt.Sprintf("ran %d tasks, %d rows as %d: %v; expected %v (%v), %d rows left waiting, flow %v ahead of virtual time",
			d.Tasks, d.Rows, d.Padded, d.Flush, d.Estimate.Cost, d.Estimate.Source, d.Left, time.Duration(d.Lead))
	case Refused:
		return fmt.Sprintf("refused %d rows: %v", d.Rows, &d.Refused)
	case Dropped:
		return fmt.Sprintf("dropped %d rows: the limit passed after %v in the queue", d.Rows, d.Waited)
	}
	return "nothing"
}

// logSize is how many decisions are remembered.
const logSize = 256

// decisionLog remembers the latest decisions.
type decisionLog struct {
	ring [logSize]Decision
	n    uint64 // decisions ever
}

func (l *decisionLog) next() *Decision {
	d := &l.ring[l.n%logSize]
	l.n++
	*d = Decision{}
	return d
}

func (l *decisionLog) batch(now Time, q *queue, b *Batch, ln *lane, fair *fairq.Queue) {
	d := l.next()
	d.At, d.Version, d.Name, d.Kind = now, b.Version, q.version.name, Ran
	d.Flush, d.Tasks, d.Rows, d.Padded, d.Left = b.Reason, len(b.Spans), b.Rows, b.Padded, q.waiting
	d.Estimate = ln.est
	d.Lead = fair.Start(fairq.Flow(q.version.flow)) - fair.Now()
}

func (l *decisionLog) refusal(now Time, v *version, r *Refusal, rows int) {
	d := l.next()
	d.At, d.Version, d.Name, d.Kind = now, v.id, v.name, Refused
	d.Refused, d.Rows = *r, rows
}

func (l *decisionLog) drop(now Time, v *version, t *task) {
	d := l.next()
	d.At, d.Version, d.Name, d.Kind = now, v.id, v.name, Dropped
	d.Rows, d.Waited = t.rows, now.Sub(t.arrival)
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
