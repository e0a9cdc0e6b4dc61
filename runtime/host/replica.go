package host

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// replica is a version on one device, where it is a version of the scheduler by itself. Its fields are set before it is
// first added to the scheduler, except where they say so.
type replica struct {
	*version
	key    residency.ReplicaID // that residency speaks of it by, once it is enlisted
	host   *Host
	device *fleet.Device
	opened engine.Opened
	unit   *execution.Unit // its plan keeps its signature once the replica is admitted
	id     sharedsched.VersionID
	flow   flowKey
	memory *fleet.Holding

	said *tensor.Signature // by its engine
	// signature is what it is to be published with, bare the same where no lengths are padded, and verdict what its
	// proof said. Set when it is admitted.
	signature, bare *tensor.Signature
	verdict         proof.Verdict
	// which one of the version's it rests on: what is found later of an earlier one says nothing of this
	proof int64
	// seats counts the replicas in the scheduler that use the session, the buffers and the memory: two while one is
	// moved.
	seats *atomic.Int32
	gone  atomic.Bool // what it holds was given back

	// pending is the device time that its unanswered requests are expected to take, and perRow what a row took lately;
	// used and refused are what its requests took, and how many were refused, since the latest tick. Times are
	// nanoseconds.
	pending, perRow, used, refused atomic.Int64
}

// list returns the version's replicas, the first that was loaded first. It is not to be changed.
func (v *version) list() []*replica {
	if all := v.replicas.Load(); all != nil {
		return *all
	}
	return nil
}

// pick returns the replica that is expected to answer a request of so many rows first, or nil if no device is left. It
// is a guess: each device is taken to answer in the order of arrival.
func (v *version) pick(rows int) (best *replica) {
	least := int64(0)
	for _, r := range v.list() {
		if r.device.Lost() != nil {
			continue
		}
		answered := r.device.Pending.Load() + r.expects(rows)
		if best == nil || answered < least {
			best, least = r, answered
		}
	}
	return best
}

// expects returns the device time that so many rows are expected to take. It is never 0, so that requests of unknown
// cost are counted at least.
func (r *replica) expects(rows int) int64 { return max(1, r.perRow.Load()*int64(rows)) }

// await adds to the device time that is waited for, or takes away.
func (r *replica) await(expected int64) {
	r.pending.Add(expected)
	r.device.Pending.Add(expected)
}

// learning is how many requests the cost of a row is averaged over, with less weight on what is longer ago.
const learning = 8

// account notes how a task ended that was expected to take so much device time. typical: requests as they are asked
// cost as much.
func (r *replica) account(t *sharedsched.Task, expected int64, typical bool, o *sharedsched.Outcome, err error) {
	if _, is := errors.AsType[*sharedsched.Refusal](err); is {
		if t.Priority != sharedsched.Sheddable {
			r.refused.Add(1)
			r.device.Asked.Add(expected)
		}
		return
	}
	took := int64(cmp.Or(o.DeviceTime, o.Compute))
	r.used.Add(took)
	r.device.Asked.Add(took)
	if err != nil || t.Unmeasured || !typical {
		return
	}
	now := took / int64(t.Rows)
	if before := r.perRow.Load(); before > 0 {
		now = before + (now-before)/learning // two at a time may miss one of them, which matters little
	}
	r.perRow.Store(now)
}

// waiting returns the device time that the version's own unanswered requests are expected to take, on the replica with
// the least.
func (v *version) waiting() time.Duration {
	least := int64(-1)
	for _, r := range v.list() {
		if p := r.pending.Load(); least < 0 || p < least {
			least = p
		}
	}
	return time.Duration(max(0, least))
}

// change gives the version other replicas. The caller holds Host.mu, or the version is not published yet.
func (v *version) change(to []*replica) {
	for _, r := range v.list() {
		// else it was only moved
		if !slices.ContainsFunc(to, func(other *replica) bool { return other.seats == r.seats }) {
			v.graphs.left = append(v.graphs.left, r.unit.Meter)
		}
	}
	v.replicas.Store(&to)
}

// publish writes where a version is, and how it is audited.
func (v *version) publish(public *catalog.Version, r *residency.Resident) {
	for _, r := range v.list() {
		public.Replicas = append(public.Replicas, catalog.Replica{
			Device: r.opened.Device, Provider: r.opened.Provider, Scheduler: int32(r.id),
		})
	}
	if b := &r.Settings.Batching; public.Batching.Batched && b.Audit > 0 || v.audit.compared.Load() > 0 {
		public.Batching.AuditShare = b.Audit
	}
	public.Live = v.live()
	first := public.Replicas[0]
	public.Device, public.Provider, public.Scheduler = first.Device, first.Provider, first.Scheduler
	public.Scarce = r.Scarce()
}
