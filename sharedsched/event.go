package sharedsched

import "github.com/weftserve/weft/sharedsched/cost"

// Event is one thing that happened to a scheduler. Kind says what happened, and which of the other fields are read; the
// others are zero. Callers may use its memory again, and all that it points to, as soon as Step has returned: Core
// keeps nothing of it but the text of a task's keys, and Settings.AllowedBatchSizes, which must not change.
type Event struct {
	Kind EventKind
	// Moved says that two versions are the same one under two ids.
	Moved bool
	// Lane asks for a batch, or ends one.
	Lane LaneID
	// Flow and Version name the flow and the version of the event; From is the version that Version inherits from.
	Flow          FlowID
	Version, From VersionID

	// Task and Limit are for EventSubmit. Limit is Task.Limit on the scheduler's clock, Never for none.
	Task  *Task
	Limit Time
	// Handle is the task that is cancelled.
	Handle Handle
	// Batch is filled by EventNext and read by EventSettle, for which Report says what the batch cost.
	Batch  *Batch
	Report *Report

	// Added is a new device.
	Added *Device
	// Name is the name of a flow or version for people, Device the name of a device.
	Name, Device string
	// Weight is a flow's part of its device, in relation to the other flows'.
	Weight float64
	// Settings are of a version, Sample is of a device.
	Settings *Settings
	Sample   *cost.Sample
}

// Answer is the result of an event. Each kind of event says which fields it sets; the others keep their values, so that
// one Answer serves a caller for all of its events.
type Answer struct {
	// Actions are to be carried out by the caller. Step appends to them; the caller empties them when it has carried
	// them out.
	Actions []Action
	// OK is the answer of EventNext and EventCancel.
	OK bool
	// Flow, Version and Task name the one that was added.
	Flow    FlowID
	Version VersionID
	Task    Handle
	// Lane is the first lane of a device that was added. The ids of its others follow.
	Lane LaneID
	// Batch describes a batch that ended, for the Observer.
	Batch BatchEvent
}

// EventKind says what happened. Where its comment mentions no error, there is none; where it mentions no action, there
// is none.
type EventKind uint8

// The kinds of event, in three groups: devices, flows and versions; the life of a task, whose events come with every
// request and neither allocate nor take more than O(log n); and shutdown.
const (
	// EventAddDevice adds the device Added, whose lanes are free. It answers Lane, or an error: there is one of that
	// name, or it has no lanes. A device that was removed may come again: it is a new one then, without flows and
	// versions and with unknown costs.
	EventAddDevice EventKind = iota + 1
	// EventRemoveDevice takes Device out, with its versions and flows: its versions are expelled, as with EventExpel,
	// its flows take no more of them, and those of identities are forgotten. Lanes that are free are gone, and may not
	// ask for work any more; of the others each is gone when its batch has been settled. The error is that there is no
	// such device.
	EventRemoveDevice
	// EventAddFlow adds a flow, Name, on the device Device with Weight. It answers Flow, or an error: the weight is out
	// of bounds (package fairq), or there is no such device.
	EventAddFlow
	// EventRemoveFlow forgets Flow, whose versions are gone, or whose device is. Its id may name another flow
	// afterwards.
	EventRemoveFlow
	// EventAddVersion adds a version, Name, whose tasks are charged to Flow, with Settings. It answers Version, or an
	// error: a setting is not valid, or there is no such flow, or its device is gone.
	EventAddVersion
	// EventInherit lets Version begin with the known costs of From, a version on the same device, until its own are
	// measured. Moved: it is the other one under a new id, with the same engine, which has the memory that it took; a
	// new engine has yet to take it. Nothing happens where one of them is gone, or they are on different devices.
	EventInherit
	// EventConfigure gives Version other Settings, from the next batch on. The error is ErrRemoved, or says which
	// setting is not valid; then the old ones stay.
	EventConfigure
	// EventRemoveVersion refuses further tasks of Version and runs its waiting tasks without waiting for batches to
	// fill. Once its last task has ended, now or later, an action of kind VersionGone says so.
	EventRemoveVersion
	// EventExpel is EventRemoveVersion for a version whose device cannot run anything any more: tasks that have rows
	// waiting end now, as EndRemoved.
	EventExpel
	// EventObserve brings telemetry's latest reading of Device, in Sample. The expected cost of executions changes with
	// it, and how large they may be. Nothing happens where there is no such device.
	EventObserve

	// EventSubmit asks for Task, of Version, to be admitted until Limit. It answers Task. The error is ErrNoRows,
	// ErrRemoved, ErrDraining, ErrTooManyRows, ErrExpired or a *Refusal, or says that the weight of an identity is out of
	// bounds. Where there is no room, a task that matters less may end to make room.
	EventSubmit
	// EventCancel ends the task Handle if it has rows waiting, and answers OK. One that is running throughout goes on
	// to its end, and OK is false: started rows cannot be taken back.
	EventCancel
	// EventNext gives a free Lane its next batch, in Batch but for the payloads; its slice of spans is used again. OK
	// is false when there is nothing to start; the lane then stays free. Tasks that expired are dropped first, and so
	// are the tasks that must be given up for the sake of the batch.
	EventNext
	// EventSettle ends the Batch on Lane, whose cost is in Report: the cost is learnt, charges are corrected, and its
	// tasks end or go on. A span whose Err is set failed. It answers Batch.
	EventSettle
	// EventAdvance says that nothing but time has passed: tasks whose limit has come are dropped, and queues that were
	// held long enough become ready. NextWake returns when it is due.
	EventAdvance

	// EventHurry ends all holding of batches for their timeouts, now and from now on, as befits a server that is about
	// to stop: tasks are admitted as before.
	EventHurry
	// EventDrain refuses further tasks of every version and runs all waiting tasks without waiting for batches to fill.
	EventDrain
	// EventClose ends every task that has rows waiting, as EndClosed, and refuses further ones.
	EventClose
)
