package serving

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Replica is a version on one device, where it is a version of the scheduler by itself. Its fields are set before it is
// first added to the scheduler, except where they say so.
type Replica struct {
	*Version
	Key    residency.ReplicaID // its name in residency
	Device *fleet.Device
	Opened engine.Opened
	first  firstRow

	unit   *execution.Unit // its plan keeps its signature once the replica is admitted
	id     sharedsched.VersionID
	flow   flowKey
	memory *fleet.Holding
	// giveCopy gives up its use of the version's private copy; it may be called again.
	giveCopy func()

	said *tensor.Signature // by its engine
	// signature is the one that it is to be published with, bare the same where no lengths are padded, and verdict that
	// of its proof. Set when it is admitted.
	signature, bare *tensor.Signature
	verdict         proof.Verdict
	// state is what the server keeps of its tensors between the requests of an episode; nil: nothing. Set with those.
	state *catalog.EpisodeState
	// the version's proof that it rests on: later findings about an earlier one say nothing about this
	proof int64
	// seats counts the replicas in the scheduler that use the session, the buffers and the memory: two while one is
	// moved.
	seats   *atomic.Int32
	gone    atomic.Bool            // its resources were given back
	stalled atomic.Pointer[string] // why it is stalled, nil if it is not; written by Version.Review
	again   *owntime.Timer         // has the replica reviewed; of Version.Review

	// pending is the device time that its unanswered requests are expected to take, and perRow the time that a row took
	// lately; used is the time that its requests took, and refused how many were refused, since the latest tick. Times
	// are nanoseconds.
	pending, perRow, used, refused atomic.Int64
}

// newReplica completes a replica of an opened session with a key and a unit. The unit has no plan yet.
func (v *Version) newReplica(r *Replica, l *execution.Loaded) *Replica {
	r.Version, r.Key = v, residency.ReplicaID(v.shared.replicas.Add(1))
	r.unit = &execution.Unit{
		Model: v.Model, Version: v.Number, Loaded: l, Owner: r, Log: v.shared.Log, MaxAnswer: v.shared.MaxAnswer,
	}
	return r
}

// shown returns the signature to publish. Where the version is out of batching no lengths are padded.
func (r *Replica) shown() *tensor.Signature {
	if r.demoted.Load() != nil {
		return r.bare
	}
	return r.signature
}

// Lost reports whether the replica's device failed.
func (r *Replica) Lost() bool { return r.Device.Lost() != nil }

// Found implements execution.Owner. Outputs that cannot be divided among requests take the version out of batching, and
// a lost device is reported to the owner.
func (r *Replica) Found(f execution.Finding) {
	if f.Rowless != nil {
		r.Demote(fmt.Sprintf("in a batch of requests %v", f.Rowless))
	}
	if f.Lost != nil {
		r.shared.Owner.Lost(r.Device, f.Lost, r.Version)
	}
}

// Plan returns how the replica's requests become executions now.
func (r *Replica) Plan() *execution.Plan { return r.unit.Plan() }

// unjoined returns the plan of requests that run by themselves, as they came: without padding of rows or lengths.
func (r *Replica) unjoined() *execution.Plan { return r.unit.Plan().Unjoined(r.bare) }

// errProvenAnew says that an audited row was answered under an earlier proof: the audit can find nothing about that any
// more.
var errProvenAnew = errors.New("the version was proven anew")

// Run implements audit.Replica: it runs an audited row once more, among the requests of callers.
func (r *Replica) Run(ctx context.Context, j *execution.Job) (sharedsched.Outcome, error) {
	j.Unit = r.unit
	outcome, err := r.runRow(ctx, j)
	if err == nil && r.proof != r.proofs.Load() {
		err = errProvenAnew
	}
	return outcome, err
}

// Another implements audit.Replica: it returns another replica that serves by the same proof on a device that works, or
// nil.
func (r *Replica) Another() audit.Replica {
	if other := r.Pick(1); other != nil && other != r && other.proof == r.proof {
		return other
	}
	return nil
}
