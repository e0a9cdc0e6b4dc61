// Package catalog is the view of the resident models that the other packages have: their versions and states, and the
// call that runs one.
package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// State is the stage of a version's life: Loading → Ready → Unloading → gone, or Loading → Failed.
type State uint8

// The states. Only a Ready version takes requests.
const (
	Loading State = iota + 1
	Ready
	Failed
	Unloading
)

// String returns loading, ready, failed or unloading.
func (s State) String() string {
	return [...]string{"unknown", "loading", "ready", "failed", "unloading"}[s]
}

// Version describes one version of a model. It is immutable: a change publishes a new one. Its counters, which change
// with the requests that it answers, are not part of it; Live reads them.
type Version struct {
	Model  string
	Number int64
	State  State
	// Cause says why State is Failed: what was wrong, where, and what to do. Of a version that is Ready it says why its
	// newer files do not take over. It is for callers, see Public.
	Cause string
	// TakenOut: State is Failed although the version could be loaded, because its requests ended the engine's process
	// again and again. It is loaded again by itself at Again; zero: never.
	TakenOut bool
	Again    time.Time
	// Fault is the whole of Cause, for the keeper of the repository.
	Fault error
	// Path is the model file or, for a synthetic model, its version directory.
	Path string
	// Digest is the SHA-256 of the list of its files' SHA-256 (see modelfile.Files.Digest), in hexadecimal digits; ""
	// while it is not resident, and of a synthetic model.
	Digest string
	// Steps are what a pipeline is made of, in the order in which they run; none: it is none.
	Steps []Step
	// Signature is nil until the model was opened.
	Signature *tensor.Signature
	// EpisodeState is what the server keeps between the requests of an episode; nil: nothing.
	EpisodeState *EpisodeState
	Batching     Batching
	// Device, Provider and Scheduler are those of the first replica.
	Device string
	// Provider is the execution provider, such as cpu, cuda or synth.
	Provider string
	// Live reads the version's counters as they are now; nil unless it is resident or TakenOut. It waits for nothing, and
	// may be called after the version is gone: then its counters stay as they were.
	Live func() Live
	// Loading says how far its load is, or that of the changed files that are to take its place, as of now; nil: neither
	// is being loaded. It waits for nothing, and may be called later: then it says that nothing has begun.
	Loading func() LoadProgress
	// Weight is its flow's share of the device when that is contended.
	Weight        float64
	TargetLatency time.Duration // 0: derived from cost
	MaxLatency    time.Duration // 0: none
	LoadedAt      time.Time
	// Scheduler is the version's number in the scheduler's state and events.
	Scheduler int32
	// StepOnly: it is there only because pipelines ask it as a step, and answers no request that names no version.
	StepOnly bool
	// Resident is what answers its requests, for the host that published it; nil: nothing does.
	Resident any
	// Replicas are where it runs, the first that was loaded first; none until it is ready.
	Replicas []Replica
	// Scarce says why there are fewer replicas than were asked for, or why it is on another device than its manifest
	// prefers although it is to move there; "" if neither is so.
	Scarce string
	// RowCrashed is how the first made-up row ended the process in which the version was tried; "" if it did not.
	RowCrashed string
	// Stalled says why it answers nothing at present, although it is Ready and takes requests, which wait: its runs
	// hang, or its process is being started again. "" if some replica answers.
	Stalled string
}

// Step is one model of a pipeline. It runs Repeat times.
type Step struct {
	Name, Model     string
	Version         int64
	Repeat          int
	When            string       // the condition for rows to pass, such as "see.score is above 0.5"; "": all do
	Separate        bool         // it is a request of its own to that version
	Inputs, Outputs []StepTensor // ascending
}

// StepTensor is an input or output of a step's model, and what it is called in the pipeline: as an input or output of
// that, or "step.output".
type StepTensor struct{ Name, Called string }

// String is such as "see: encoder/3", "act: head/7, 10 times" or "rank: ranker/2, where see.score is above 0.5".
func (s Step) String() string {
	text := fmt.Sprintf("%s: %s/%d", s.Name, s.Model, s.Version)
	if s.Repeat > 1 {
		text += fmt.Sprintf(", %d times", s.Repeat)
	}
	if s.When != "" {
		text += ", where " + s.When
	}
	return text
}

// Replica is a version on one of its devices.
type Replica struct {
	Device, Provider string
	// Scheduler is its number in the scheduler's state and events.
	Scheduler int32
}

// Live holds the counters of a version while it serves.
type Live struct {
	// Replayed counts the executions that replayed a captured CUDA graph, Eager the others, and GraphFailures the
	// graphs that were to be captured and are not used, because they failed; 0 where no graph ever is.
	Replayed, Eager, GraphFailures uint64
	// Audited counts the rows of live batches that were run alone and compared, and Different the ones that had been given
	// another answer.
	Audited, Different uint64
	// Memory is how much of its device's memory each of the Replicas holds, in bytes, as of its latest runs; -1 if its
	// engine does not say.
	Memory []int64
	// Restarting says of each of the Replicas whether its process died and the next one is still being started, or dies
	// soon each time.
	Restarting []bool
	Crashes    Crashes
	// Batches counts the executions by how many rows they had, ascending, since the version is ready.
	Batches []BatchCount
}

// Crashes are the deaths of engines' processes that concern a version, since it was loaded. Where models run in the
// server's process there are none.
type Crashes struct {
	// Deaths counts the processes that it ran in and that died, whatever the reason. DeathAt is when the latest did,
	// and Death is how; zero and "" if none did.
	Deaths  uint64
	DeathAt time.Time
	Death   string
	// Proven counts the times that one of its requests ended a process in which nothing else ran. ProvenAt is the
	// latest of them, and Proof is how it ended.
	Proven   uint64
	ProvenAt time.Time
	Proof    string
	// Remembered is how many such requests are refused from now on, without being run: those from before it was loaded
	// again from the same files, too.
	Remembered int
}

// Batching says how a version is served and why.
type Batching struct {
	// Batched: rows of different requests may share an execution.
	Batched bool
	// Reason is one sentence: proven harmless, or why not, with the difference seen.
	Reason string
	// Proof is the basis of batching, and Obstacle the reason why there is no proof by structure: an operator with its
	// clause, or a clause; "" where no such proof was asked for, or nothing stood in its way.
	Proof    Proof
	Obstacle string
	// MaxDifference is the largest deviation that the proof saw, relative to the largest output magnitude.
	MaxDifference     float64
	MaxBatchSize      int
	AllowedBatchSizes []int
	MaxRequestRows    int
	MaxQueue          int
	// AuditShare is the share of its device time in which rows of live batches are run alone and compared; 0 where none
	// are.
	AuditShare float64
}

// Proof is the basis of the claim that the rows of a version do not influence each other.
type Proof string

// The proofs. The zero value: nothing was to be proven, because the version cannot be batched or is not to be.
const (
	ProofStructure Proof = "structure" // the graph: for every value of every input
	ProofExamples  Proof = "examples"  // made-up rows, at load
	ProofTrusted   Proof = "trusted"   // batching.mode is on: nothing but that
	ProofNone      Proof = "none"      // a proof was wanted, and failed
)

// Model is a name in the repository and its versions.
type Model struct {
	Name string
	// Cause says why nothing of the model could be read, such as a fault in its manifest. Its Versions are then the ones
	// that were resident before, if any. It is for callers, see Public.
	Cause string
	// Elsewhere says which other replicas serve the model by the roster; nil: this one does. Its Versions are then those
	// that drain.
	Elsewhere *ElsewhereError
	// Versions ascend by number.
	Versions []*Version
	// Unloaded are the versions that the policy selects and that somebody unloaded by hand, maybe before the process
	// began, ascending. They are not among Versions.
	Unloaded []int64
	// Decided is the highest number of a version that a decision made at run time is about, also one that has been
	// removed; 0: there is none.
	Decided int64
	// Labels maps a label to the number of a version.
	Labels map[string]int64
	// Traffic is how requests are divided. Nil is the same as one without a split: the newest ready version answers.
	Traffic *Traffic
	// RolledBack are the versions that do not answer for being the newest, ascending.
	RolledBack []RolledBack
	// TrafficWaitsFor are the versions that must become ready before other traffic, which the manifest asks for, is in
	// force, ascending; none: nothing waits.
	TrafficWaitsFor []int64
}

// Version returns the numbered version, or nil.
func (m *Model) Version(number int64) *Version {
	i, ok := slices.BinarySearchFunc(m.Versions, number, func(v *Version, n int64) int {
		switch {
		case v.Number < n:
			return -1
		case v.Number > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return m.Versions[i]
}

// Absence says why the model has no version, or Cause; "" where there is nothing to say.
func (m *Model) Absence() string {
	if n := len(m.Unloaded); m.Cause == "" && len(m.Versions) == 0 && n > 0 {
		return fmt.Sprintf("version %d was unloaded by hand: `weft load %s %[1]d`", m.Unloaded[n-1], m.Name)
	}
	if m.Elsewhere != nil && len(m.Versions) == 0 {
		return m.Elsewhere.Error()
	}
	return m.Cause
}

// ElsewhereError says that other replicas of the roster serve a model, or none for lack of room.
type ElsewhereError struct {
	Model, Self string
	Replicas    []string // by name; none: Why says why there are none
	Why         string
}

func (e *ElsewhereError) Error() string {
	if len(e.Replicas) == 0 {
		return fmt.Sprintf("model %q is on no replica: %s", e.Model, e.Why)
	}
	return fmt.Sprintf("model %q is not on replica %s, but on %s; ask there (`weft place` prints which model is where)",
		e.Model, e.Self, strings.Join(e.Replicas, ", "))
}

// Same reports whether two say the same; either may be nil.
func (e *ElsewhereError) Same(o *ElsewhereError) bool {
	return (e == nil) == (o == nil) && (e == nil || e.Error() == o.Error())
}

// WasRolledBack reports whether a version was rolled back and nobody has given it traffic since.
func (m *Model) WasRolledBack(number int64) bool {
	return slices.ContainsFunc(m.RolledBack, func(r RolledBack) bool { return r.Version == number })
}

// Newest returns the highest version that is ready, was not rolled back, and is not for pipelines only; or nil.
func (m *Model) Newest() *Version {
	for _, v := range slices.Backward(m.Versions) {
		if v.State == Ready && !v.StepOnly && !m.WasRolledBack(v.Number) {
			return v
		}
	}
	return nil
}

// Answers reports whether a request that names neither a version nor a label is answered: slots without weight are the
// last resort for it.
func (m *Model) Answers() bool {
	if m.Traffic == nil || len(m.Traffic.Split) == 0 {
		return m.Newest() != nil
	}
	for _, s := range m.Traffic.Split {
		if v := m.Version(s.Version); v != nil && v.State == Ready {
			return true
		}
	}
	return false
}

// Responds reports whether a request that names neither a version nor a label can be expected to be answered now: some
// version that may get it is ready and not stalled.
func (m *Model) Responds() bool {
	if m.Traffic == nil || len(m.Traffic.Split) == 0 {
		v := m.Newest()
		return v != nil && v.Stalled == ""
	}
	for _, s := range m.Traffic.Split {
		if v := m.Version(s.Version); v != nil && v.State == Ready && v.Stalled == "" {
			return true
		}
	}
	return false
}

// Snapshot is every known model at one moment. It is immutable.
type Snapshot struct {
	Revision uint64
	Models   Map[string, *Model] // by name
	// Lost are devices that failed, by name. They are not used until they are back.
	Lost []LostDevice
}

// LostDevice is a device that failed, and the part of its error that callers may see.
type LostDevice struct{ Name, Cause string }

// Model returns the named model, or nil. The name is compared, never interpreted.
func (s *Snapshot) Model(name string) *Model { return s.Models.Get(name) }

// ByName returns models as a snapshot has them.
func ByName(models ...*Model) (all Map[string, *Model]) {
	for _, m := range models {
		all = all.With(m.Name, m)
	}
	return all
}
