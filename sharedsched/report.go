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
	Version             VersionID
	Device              string
	Tasks, Rows, Padded int
	Reason              FlushReason
	Estimated           time.Duration // the cost model's prediction; 0 if it had no measurement
	Elapsed, DeviceTime time.Duration
	Failed              bool // as a whole, or on some of its tasks
}
