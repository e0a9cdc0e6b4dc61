package residency

import (
	"log/slog"
	"time"

	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/fleet/placement"
)

// Effect is an action for the shell. Load, Reconfigure, Drain, Upgrade, Grow, Shrink and AskBusy end with an event,
// each exactly once, however they end; the machine starts nothing else of the model until then.
type Effect interface{ effect() }

// Publish says that the state of these models changed. It comes before all other effects of a step.
type Publish struct{ Models []string }

// Load opens a version on a device, proves and warms it up, and on further devices if it replaces a version that has
// several. It ends with Loaded.
type Load struct {
	Of Candidate
	// Resident is the number that the version is to have; Replaces is the number of the version that it replaces, 0 for
	// none.
	Resident, Replaces int64
	Replicas           int // at most so many, as far as they can be had now
	// Unbatched says, by the digest of their files, which versions are out of batching from the beginning, and why.
	Unbatched map[string]string
}

// Reconfigure makes a ready version follow another manifest. It ends with Reconfigured.
type Reconfigure struct {
	Of       Candidate
	Resident int64
}

// Drain waits until the version has answered its accepted requests, and closes it. It ends with Drained.
type Drain struct {
	Model    string
	Number   int64
	Replicas []ReplicaID
}

// Retire does the same in the background for a replica that left its version. It ends with Retired.
type Retire struct{ Replica ReplicaID }

// Abandon gives up the queued requests of a replica on a lost device, and its share of the memory budget.
type Abandon struct{ Replica ReplicaID }

// Upgrade opens a version on a better device that has room. It ends with Upgraded.
type Upgrade struct {
	Of       Candidate
	Resident int64
	From     ReplicaID
	To       []placement.Site
}

// Grow opens a version on one more device. It ends with Grown.
type Grow struct {
	Of       Candidate
	Resident int64
}

// Shrink chooses the replica that a version can spare. It ends with Shrunk.
type Shrink struct {
	Model    string
	Number   int64
	Replicas []Replica
}

// AskBusy asks whether episodes run on a version. It ends with BusyAnswered.
type AskBusy struct {
	Model  string
	Number int64
}

// WakeAt asks for a Tick.
type WakeAt struct {
	Model string
	At    time.Time
}

// Keep keeps the decisions about a model that manifests left in force.
type Keep struct {
	Model string
	After decisions.Model
}

// Log is a line for the log. The first attribute is "event".
type Log struct {
	Level   slog.Level
	Message string
	Attrs   []any
}

func (Publish) effect()     {}
func (Load) effect()        {}
func (Reconfigure) effect() {}
func (Drain) effect()       {}
func (Retire) effect()      {}
func (Abandon) effect()     {}
func (Upgrade) effect()     {}
func (Grow) effect()        {}
func (Shrink) effect()      {}
func (AskBusy) effect()     {}
func (WakeAt) effect()      {}
func (Keep) effect()        {}
func (Log) effect()         {}
