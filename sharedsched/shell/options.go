package shell

import "io"

// Options are the listeners and the sources of a Scheduler. All of them are fixed for its life.
type Options struct {
	// Observer is notified of executions. Nil: none.
	Observer Observer
	// Telemetry reports the state of the devices. Nil: only the measured times of executions show it.
	Telemetry Telemetry
	// Trace is given lines of JSON, one for each event with the decisions, so that trace.Replay can make them again. A
	// goroutine of the Scheduler writes to it, with no lock held; Close writes the rest. Nil: none.
	Trace io.Writer
	// TraceCut is called once, from a goroutine of its own, if Trace does not keep up and is cut: when more than 16 MiB
	// wait for it the trace ends with a line that says so, and the scheduler goes on without it. May be nil.
	TraceCut func()
}
