package shell

import "io"

// Options are who listens to a Scheduler, and who tells it what. All of them are fixed for its life.
type Options struct {
	// Observer hears of executions. Nil: nobody does.
	Observer Observer
	// Telemetry says in what state the devices are. Nil: nothing but what executions take is known of that.
	Telemetry Telemetry
	// Trace is given lines of JSON, one for each event and what was decided, so that trace.Replay can decide it again.
	// A goroutine of the Scheduler writes to it, with no lock held; Close writes what is left. Nil: none.
	Trace io.Writer
	// TraceCut is called once, from a goroutine of its own, if Trace does not keep up and is cut: when more than 16 MiB
	// wait for it the trace ends with a line that says so, and the scheduler goes on without. May be nil.
	TraceCut func()
}
