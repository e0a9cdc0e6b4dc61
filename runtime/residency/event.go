package residency

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Event is a wish, the end of an effect, or news from outside. The types of this file are all there are.
type Event interface{ event() }

// Listed says that the repositories were looked at.
type Listed struct {
	Models []ListedModel
	// Gone: models that are not listed were removed. Else they may only be out of sight.
	Gone bool
}

// ListedModel is one model of a listing.
type ListedModel struct {
	*modelrepo.Model
	// Recalled holds the decisions about it by an earlier process, where they are known. The machine reads it when it
	// meets the model for the first time.
	Recalled *decisions.Model
	// Present holds the directories of the versions that Model.Unlisted named and that are still there.
	Present map[string]bool
}

// Overridden says that somebody loads or unloads a version by override, whatever the policy selects. Model.MayOverride
// was asked before.
type Overridden struct {
	Model  string
	Number int64
	Load   bool
	By     string
	// Found is the model as it was looked at for this wish, nil if it was not. Listings may be older.
	Found *ListedModel
}

// Deciding says that a decision is being kept, so that traffic stays as it is until Decided.
type Deciding struct{ Model string }

// Decided says that a decision was kept, or could not be; After is nil then.
type Decided struct {
	Model string
	After *decisions.Model
}

// GaveUp says that a caller waits no more for a version that it loads by override. Failed: because that failed.
type GaveUp struct {
	Failed bool
	Model  string
	Number int64
}

// Withdrawn says that a caller that unloads a version by override waits no longer. It stays if it is not drained yet.
type Withdrawn struct {
	Model  string
	Number int64
}

// Loaded ends Load. Err, if not nil, says why it failed.
type Loaded struct {
	Load
	Replicas    []Replica        // at least one, unless Err is set
	Sites       []placement.Site // may run the version
	Wait        *Wait            // the version waits for a better device; nil: it does not
	Err         error
	Interrupted bool // Err says nothing about the version
	// Free is how many bytes of the budget are free after a failure.
	Free int64
}

// Reconfigured ends Reconfigure.
type Reconfigured struct {
	Reconfigure
	Moved  map[ReplicaID]Replica // takes the place of the replica of that number
	Proven bool                  // for the batches that the manifest asks for
	Reload bool                  // it cannot follow without being loaded again
	Err    error
	// Interrupted: nothing was changed.
	Interrupted bool
}

// Drained ends Drain. Interrupted: some requests are not answered yet.
type Drained struct {
	Model       string
	Number      int64
	Interrupted bool
	Err         error // of the engine, on closing
}

// Discarded says that a replica that was made ready is not wanted any more.
type Discarded struct{ Replica Replica }

// Retired ends Retire.
type Retired struct{ Replica ReplicaID }

// Upgraded ends Upgrade. One of To, Stay, Full and Err is set, none if it was interrupted.
type Upgraded struct {
	Upgrade
	To    *Replica
	Stay  bool     // its engine cannot have it on a better device
	Full  []string // devices whose room was taken in the meantime
	Err   error
	Short bool   // Err: the budget of memory does not hold it twice
	On    string // the device that it stays on
}

// Grown ends Grow. Neither is set if it was interrupted.
type Grown struct {
	Grow
	Replica *Replica
	Err     error
}

// Shrunk ends Shrink.
type Shrunk struct {
	Model   string
	Number  int64
	Replica ReplicaID
}

// BusyAnswered ends AskBusy. LastUse is when an episode on the version was last heard of; zero: none runs.
type BusyAnswered struct {
	Model   string
	Number  int64
	LastUse time.Time
}

// DeviceLost says that a device failed. By is the version that ran or was being opened there, if one is known.
type DeviceLost struct {
	Device placement.DeviceID
	Cause  error
	By     *Candidate
}

// DeviceBack says that a device that was lost works again, as another incarnation.
type DeviceBack struct{ Device placement.DeviceID }

// RoomSeen says that somebody looked whether better devices have room for a version that waits.
type RoomSeen struct {
	Model    string
	Number   int64
	Resident int64
	Open     []string
	Full     []catalog.FullDevice
}

// Fared says that a version was watched for a while.
type Fared struct {
	Model    string
	Number   int64
	Resident int64
	Fare     placement.Fare
	Further  bool // there is a device for a further replica
}

// Judged says that another way of serving a version, or another remark on it, holds from now on. Demoted is why it is
// out of batching, nil if it is not, and Files the digest of its files.
type Judged struct {
	Model    string
	Number   int64
	Resident int64
	Demoted  *string
	Files    string
}

// Crashed says that the runs of a version ended the engine's process again and again, by requests that do so also when
// they run by themselves.
type Crashed struct {
	Model    string
	Number   int64
	Resident int64
	Cause    error
}

// MemoryFreed says that so many bytes of the budget are free, or memory of a device may be.
type MemoryFreed struct{ Free int64 }

// Tick says that the time of a WakeAt has come.
type Tick struct{ Model string }

// Closing says that nothing is to be loaded any more.
type Closing struct{}

// Closed says that all effects have ended, and that resident versions are to be drained.
type Closed struct{}

func (Listed) event()       {}
func (Overridden) event()   {}
func (Deciding) event()     {}
func (Decided) event()      {}
func (GaveUp) event()       {}
func (Withdrawn) event()    {}
func (Loaded) event()       {}
func (Reconfigured) event() {}
func (Drained) event()      {}
func (Discarded) event()    {}
func (Retired) event()      {}
func (Upgraded) event()     {}
func (Grown) event()        {}
func (Shrunk) event()       {}
func (BusyAnswered) event() {}
func (DeviceLost) event()   {}
func (DeviceBack) event()   {}
func (RoomSeen) event()     {}
func (Fared) event()        {}
func (Judged) event()       {}
func (Crashed) event()      {}
func (MemoryFreed) event()  {}
func (Tick) event()         {}
func (Closing) event()      {}
func (Closed) event()       {}

// Wait says why a version waits for a better device than it is on.
type Wait struct {
	Why  string
	Need int64 // bytes
	// Full are the better devices without room, as far as that is known.
	Full []string
	// Failed: it was tried on a better device, and could not be loaded there.
	Failed bool
}
