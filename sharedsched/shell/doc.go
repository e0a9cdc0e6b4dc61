// Package shell runs the Core of a scheduler in a server: it brings the clock, the lock and the goroutines.
//
// Scheduler turns calls into events for Core, and Core's actions into answers. It has one batch thread for each lane of
// each device, a timer for the times at which Core must act though no event happens, and, where a trace is asked for, a
// goroutine that writes it.
//
// # Locks
//
// Scheduler.mu guards Core and every field marked so. It is a leaf: while it is held no other lock is taken, and
// neither the Executor, the Observer, the Telemetry, the writer of a trace nor a caller is called. A trace is appended
// to memory under it, and written by a goroutine of its own without.
//
// # Bounds
//
// A trace keeps at most twice 16 MiB in memory for its writer. There are as many threads as the present devices have
// lanes, and those of removed devices that hang. The owner must bound the callers that wait for room (WaitWhenFull).
package shell
