package serving

import (
	"cmp"
	"errors"
	"time"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Pick returns the replica that is expected to answer a request of so many rows first; nil if no device is left. It is
// a guess: each device is assumed to answer in the order of arrival. A replica that is stalled comes last. It is called
// for every request and takes no lock.
func (v *Version) Pick(rows int) (best *Replica) {
	// A device's pending time is that of all versions on it: they share its time.
	least, stalled := int64(0), false
	for _, r := range v.Replicas() {
		if r.Device.Lost() != nil {
			continue
		}
		answered := r.Device.Pending.Load() + r.expects(rows)
		stalls := r.stalled.Load() != nil
		if best == nil || stalled && !stalls || stalled == stalls && answered < least {
			best, least, stalled = r, answered, stalls
		}
	}
	return best
}

// expects returns the device time, in nanoseconds, that so many rows are expected to take. It is at least 1, so that
// requests of unknown cost count, too.
func (r *Replica) expects(rows int) int64 { return max(1, r.perRow.Load()*int64(rows)) }

// A run may take patienceFactor times as long as a full batch is expected to, longestFactor times as long as any that
// went well, but at least leastPatience: estimates are of ordinary runs, on a machine that is not busy with others.
const (
	patienceFactor = 20
	longestFactor  = 2
	leastPatience  = 2 * time.Second
)

// Patience implements execution.Owner: how long a run of so many rows may take while others wait for it, and how long
// any run may; 0: any time. Where nothing was measured, the run timeout counts for both. A server that stops does not
// wait so long for a run that hangs: without any measurement it has leastPatience then.
func (r *Replica) Patience(rows int) (usual, most time.Duration) {
	row := cmp.Or(r.perRow.Load(), int64(r.first.took))
	most = r.shared.RunTimeout
	// perRow is of requests; until there are some, the first synthetic row stands for it.
	if row == 0 && (most == 0 || !r.shared.hurried.Load()) {
		return most, most
	}
	usual = max(leastPatience, patienceFactor*time.Duration(row*int64(max(rows, r.unit.Plan().Most))),
		longestFactor*r.unit.Longest())
	if most > 0 {
		usual = min(usual, most)
	}
	return usual, most
}

// await adds to the expected device time of unanswered requests, or subtracts from it if expected is negative.
func (r *Replica) await(expected int64) {
	r.pending.Add(expected)
	r.Device.Pending.Add(expected)
}

// learning is how many requests the cost of a row is averaged over, with less weight on older ones. Fewer would follow
// each outlier, more would be slow to notice a change.
const learning = 8

// account notes how a task ended that was expected to take so much device time. A refused task counts as demand, at
// what it was expected to take, unless it waits for idle time anyway. typical says that requests of callers cost as
// much: only these change the expected cost of a row.
func (r *Replica) account(t *sharedsched.Task, expected int64, typical bool, o *sharedsched.Outcome, err error) {
	if _, is := errors.AsType[*sharedsched.Refusal](err); is {
		if t.Priority != sharedsched.Sheddable {
			r.refused.Add(1)
			r.Device.Asked.Add(expected)
		}
		return
	}
	took := int64(cmp.Or(o.DeviceTime, o.Compute))
	r.used.Add(took)
	r.Device.Asked.Add(took)
	if err != nil || t.Unmeasured || !typical {
		return
	}
	now := took / int64(t.Rows)
	if before := r.perRow.Load(); before > 0 {
		now = before + (now-before)/learning // two at a time may miss one of them, which matters little
	}
	r.perRow.Store(now)
}

// waiting returns the device time that the version's unanswered requests are expected to take, on the replica with the
// least. A new request would wait about as long.
func (v *Version) waiting() time.Duration {
	least := int64(-1)
	for _, r := range v.Replicas() {
		if p := r.pending.Load(); least < 0 || p < least {
			least = p
		}
	}
	return time.Duration(max(0, least))
}

// Fare returns how the version fared since the latest call, which was as long ago as passed says. It is called by one
// goroutine, because it resets the counts.
func (v *Version) Fare(passed time.Duration) placement.Fare {
	f := placement.Fare{Waiting: v.waiting()}
	for _, r := range v.Replicas() {
		f.Replicas++
		f.Refused += int(r.refused.Swap(0))
		f.Used += float64(r.used.Swap(0)) / float64(passed)
	}
	return f
}

// planOf returns the plan by which requests to a replica become executions, as its proof allows and its manifest asks.
func planOf(s *tensor.Signature, v proof.Verdict, b *modelrepo.Batching) *execution.Plan {
	v = v.Under(b)
	p := execution.NewPlan(s, time.Duration(b.MaxBatchCost))
	p.Batched, p.Allowed, p.Most = v.Batched, v.Allowed, v.Most
	p.Watch, p.Values = watchOf(b), valuesOf(s, v)
	return p
}

// valuesOf returns the parts of requests besides rows that are to be proven; nil where there are none.
func valuesOf(s *tensor.Signature, v proof.Verdict) *execution.Values {
	if !v.Batched || v.AnyValue {
		return nil
	}
	return execution.NewValues(s)
}

// watchOf returns how closely audits look at executions.
func watchOf(b *modelrepo.Batching) execution.Watch {
	return execution.Watch{Share: b.Audit, Trusted: b.Mode == modelrepo.BatchOn}
}
