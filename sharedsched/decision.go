package sharedsched

import (
	"fmt"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// Decision is one thing that Core decided, with the numbers that it decided by. It is kept as numbers and put into
// words only when it is printed.
type Decision struct {
	At      Time
	Version VersionID
	Name    string // of the version
	Kind    DecisionKind
	// Identity is whose flow it was; "": that of the version.
	Identity string

	// For Ran: the batch, the rows its queue kept waiting, and the fair queue at that moment.
	Flush               FlushReason
	Tasks, Rows, Padded int
	Left                int
	Bound               Bound // why it did not take them
	Estimate            cost.Estimate
	Lead                fairq.Tag     // of the flow's tag over the virtual time, after the charge
	Rule                PickRule      // why this queue
	Slack               time.Duration // from now to the latest start that meets the first target; negative: too late
	Demanding           int           // flows that demanded service, this one included if it did

	Refused Refusal // for Refused

	// For Dropped: why, how long the task had waited, the time it had left, and the time that an execution of it takes.
	Drop               DropReason
	Waited, Had, Needs time.Duration
}

// DecisionKind says what was decided.
type DecisionKind uint8

// The kinds of decision.
const (
	// Ran: a batch was started.
	Ran DecisionKind = iota + 1
	// Refused: a task was not admitted.
	Refused
	// Dropped: a task was given up while it waited.
	Dropped
)

// String returns ran, refused or dropped.
func (k DecisionKind) String() string {
	return [...]string{"none", "ran", "refused", "dropped"}[k]
}

// PickRule says why a queue was served and not another.
type PickRule uint8

// The rules of the pick.
const (
	// PickEarliest: its target is the earliest.
	PickEarliest PickRule = iota
	// PickWithin: its target is the earliest of those of flows within their shares; those of others are earlier.
	PickWithin
	// PickBehind: of the flows beyond their shares that cannot all be in time, its flow is furthest behind.
	PickBehind
	// PickBeside: it would be late at its turn, and starts beside the batch in flight.
	PickBeside
	// PickIdle: no flow demands service: its slack is the least.
	PickIdle
	// PickBackground: no foreground task waits.
	PickBackground
)

var pickRules = [...]string{
	PickEarliest: "earliest target", PickWithin: "earliest target within its share",
	PickBehind: "furthest behind of those in conflict",
	PickBeside: "beside the batch in flight", PickIdle: "least slack, device idle", PickBackground: "background",
}

// String names the rule.
func (r PickRule) String() string { return pickRules[r] }

// Bound says why a batch left rows of its queue waiting. More than one may have: it is the least.
type Bound uint8

// The bounds on the rows of a batch.
const (
	// BoundNone: nothing waited, or what waits gets a batch of its own.
	BoundNone Bound = iota
	// BoundSize: MaxBatchSize.
	BoundSize
	// BoundCost: MaxBatchCost.
	BoundCost
	// BoundMemory: the device's memory does not suffice for more, or did not lately.
	BoundMemory
	// BoundUnmeasured: more than twice the largest size that was measured; four rows where none was.
	BoundUnmeasured
	// BoundDeadlines: a larger batch would end after the deadline of a task in it.
	BoundDeadlines
	// BoundDeviceCap: a larger batch would keep others on the device from meeting their targets.
	BoundDeviceCap
	// BoundBackground: background work is to be over when the next foreground task comes.
	BoundBackground
	// BoundAllowedSizes: padding to the next of AllowedBatchSizes costs more per row.
	BoundAllowedSizes
)

var bounds = [...]string{
	BoundNone: "", BoundSize: "max_batch_size", BoundCost: "max_batch_cost", BoundMemory: "device memory",
	BoundUnmeasured: "largest size measured", BoundDeadlines: "deadlines", BoundDeviceCap: "device cap",
	BoundBackground: "background work", BoundAllowedSizes: "allowed_batch_sizes",
}

// String names the bound, "" for none.
func (b Bound) String() string { return bounds[b] }

// DropReason says why a waiting task was given up.
type DropReason uint8

// The drop reasons.
const (
	// DropExpired: its limit passed.
	DropExpired DropReason = iota
	// DropHopeless: it could not have met its limit any more.
	DropHopeless
	// DropWindow: for the sake of a larger batch of those behind it.
	DropWindow
	// DropRoom: to make room for a task that matters more, or is newer.
	DropRoom
)

var dropReasons = [...]string{
	DropExpired: "expired", DropHopeless: "hopeless", DropWindow: "window", DropRoom: "room",
}

// String returns expired, hopeless, window or room.
func (r DropReason) String() string { return dropReasons[r] }

// String returns the decision and its reason in one line.
func (d Decision) String() string {
	if d.Identity != "" && d.Kind != Refused { // a refusal names it
		return fmt.Sprintf("identity %s: %s", d.Identity, d.words())
	}
	return d.words()
}

// words returns the decision without whose flow it was.
func (d *Decision) words() string {
	switch d.Kind {
	case Ran:
		by := ""
		if d.Bound != BoundNone {
			by = fmt.Sprintf(" (bound: %v)", d.Bound)
		}
		return fmt.Sprintf("ran %d tasks, %d rows as %d: %v; %v, slack %v, %d flows demand; expected %v (%v), %d rows "+
			"left waiting%s, flow %v ahead of virtual time",
			d.Tasks, d.Rows, d.Padded, d.Flush, d.Rule, d.Slack, d.Demanding, d.Estimate.Cost, d.Estimate.Source,
			d.Left, by, time.Duration(d.Lead))
	case Refused:
		return fmt.Sprintf("refused %d rows: %v", d.Rows, &d.Refused)
	case Dropped:
		switch d.Drop {
		case DropExpired:
			return fmt.Sprintf("dropped %d rows: the limit passed after %v in the queue", d.Rows, d.Waited)
		case DropHopeless:
			return fmt.Sprintf("dropped %d rows after %v in the queue: %v were left, an execution takes %v", d.Rows,
				d.Waited, d.Had, d.Needs)
		case DropWindow:
			return fmt.Sprintf("dropped %d rows after %v in the queue: %v were left, a batch of those behind takes %v "+
				"and is worth more", d.Rows, d.Waited, d.Had, d.Needs)
		case DropRoom:
			return fmt.Sprintf("dropped %d rows after %v in the queue: the queue is full and another request matters "+
				"more", d.Rows, d.Waited)
		}
	}
	return "nothing"
}
