package sharedsched

import "time"

// Report says what an execution cost.
type Report struct {
	// DeviceTime is the measured use of the device, or 0 where only the elapsed time is known; the scheduler then
	// divides the time that several batches overlap equally among them.
	DeviceTime time.Duration
	// Unusable keeps the execution out of the cost model: it failed, or did other work than its size says.
	Unusable bool
	// Failure says why the execution failed as a whole; a span without an answer is a failure, too. Reruns counts the
	// runs of parts of it that followed.
	Failure Failure `json:",omitempty"`
	Reruns  int     `json:",omitempty"`
	// OutOfMemory says that memory did not suffice for the execution as a whole: for a while the next ones have at most
	// half of its size. It teaches no costs, either.
	OutOfMemory bool `json:",omitempty"`
}

// BatchEvent describes one execution.
type BatchEvent struct {
	BatchStart `json:"-"` // a trace has it where the batch starts

	Version             VersionID
	Device              string
	Tasks, Rows, Padded int
	Reason              FlushReason
	Estimated           time.Duration // the cost model's prediction; 0 if it had no measurement
	Elapsed, DeviceTime time.Duration
	Failed              bool // as a whole, or on some of its tasks
	Missed              int  `json:"-"` // tasks that it answers later than at a target that was named
}

// BatchStart is what is known of an execution when it starts.
type BatchStart struct {
	// Number counts the batches of a Core from 1.
	Number  uint64
	Lane    LaneID
	Started Time
	// Why it was its queue's turn, with the numbers of Decision.
	Rule            PickRule
	Slack           time.Duration
	Demanding, Left int
	PassedOver      VersionID // had urgent work; NoVersion: none that had was passed over
	Background      bool      // nobody waits for it
}

// NoVersion names none.
const NoVersion VersionID = -1
