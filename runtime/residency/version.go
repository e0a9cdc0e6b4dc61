package residency

import (
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// State is the stage of a version's life.
type State uint8

// The states; a version that is absent has none.
const (
	Loading   State = iota + 1 // it is being loaded, or will be
	Ready                      // it takes requests
	Replacing                  // it takes requests while its changed files are loaded in its place
	Draining                   // it answers the requests that it accepted
	Failed                     // Cause says why
)

// Public returns the state as it is published: a version answers while another one is loaded in its place.
func (s State) Public() catalog.State {
	return [...]catalog.State{
		Loading: catalog.Loading, Ready: catalog.Ready, Replacing: catalog.Ready, Draining: catalog.Unloading,
		Failed: catalog.Failed,
	}[s]
}

// Version is a number of a model, in whatever state.
type Version struct {
	Number int64
	State  State
	// Cause says why it failed, or why a ready one does not follow its files or its manifest; nil: neither.
	Cause *catalog.Hidden
	// Of is the candidate that is loaded, was tried last or is to be loaded. It has no manifest if the repository has
	// only a fault to show.
	Of       Candidate
	Resident *Resident // takes requests or answers its last ones; nil: nothing does
	// StepOnly: it is there only because pipelines ask it as a step, and answers no request that names no version.
	StepOnly bool

	latest   int64             // number of the latest resident
	revision uint64            // counts changes of the state to be published
	override bool              // somebody unloads it by override
	before   *decisions.ByHand // the override before that; nil: none
	kept     string            // why it stays although it is not selected, as the log says
	failure  *failure
	blamed   blame
	crashes  crashes
	busy     busyState
}

// Revision changes with every change of the version's state to be published.
func (v *Version) Revision() uint64 { return v.revision }

// Resident is one load of a version.
type Resident struct {
	ID       int64               // unlike that of any other load
	Of       Candidate           // with the manifest that it was loaded by
	Settings *modelrepo.Manifest // it follows now
	Proven   *modelrepo.Manifest // its batching was proven by
	Replicas []Replica           // the most preferred device first
	Since    time.Time

	sites  []placement.Site
	reload *modelrepo.Manifest // which it could follow only if it were loaded again; nil: none is known
	auto   int                 // how many replicas the load asks for
	scaler placement.Scaler
	short  shortage
	wait   upgrade
}

// ReplicaID identifies a replica, also among the ones that are gone. The shell assigns it.
type ReplicaID int64

// Replica is a version on a device.
type Replica struct {
	ID     ReplicaID
	Device placement.DeviceID
}

// touch notes that the state to be published has changed.
func (v *Version) touch() { v.revision++ }

// ready reports whether the version takes requests.
func (v *Version) ready() bool { return v != nil && (v.State == Ready || v.State == Replacing) }

// current reports whether the serving version is the same as the candidate would be.
func (v *Version) current(c *Candidate) bool {
	if v.Resident == nil || v.State == Draining {
		return false
	}
	r := v.Resident
	return r.Of.sameFiles(c) && !(r.reload != nil && sameSettings(r.reload, c.Manifest)) &&
		sameOpening(r.Of.Manifest, c.Manifest) &&
		sameDims(&r.Of.Manifest.Batching, &c.Manifest.Batching)
}

// has returns the index of a replica in the list, or -1.
func (r *Resident) has(id ReplicaID) int {
	return slices.IndexFunc(r.Replicas, func(x Replica) bool { return x.ID == id })
}

// on reports whether a replica is on the device, in any incarnation.
func (r *Resident) on(device string) bool {
	return slices.ContainsFunc(r.Replicas, func(x Replica) bool { return x.Device.Name == device })
}

// wants returns the wanted number of replicas.
func (r *Resident) wants() int {
	if r.Settings.Replicas == modelrepo.AutoReplicas {
		return r.auto
	}
	return max(1, int(r.Settings.Replicas))
}

// rank returns the rank of a device.
func (r *Resident) rank(device string) int { return placement.Rank(device, r.sites) }

// Scarce names the thing that the version waits for: a better device, or a further replica; "" if for neither.
func (r *Resident) Scarce() string {
	if r.wait.why != "" && r.short.why != "" {
		return r.wait.why + "; " + r.short.why
	}
	return r.wait.why + r.short.why
}
