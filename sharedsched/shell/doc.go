// Package shell runs the Core of a scheduler in a server: it brings the clock, the lock and the goroutines.
//
// Scheduler turns calls into events for Core, and Core's actions into answers. It has one batch thread for each lane of
// each device, a timer for what Core is to do when nothing else happens, and, where a trace is asked for, a goroutine
// that writes it.
//
// # Locks
//
// Scheduler.mu guards Core and everything marked so. It is a leaf: nothing else is locked, and neither the Executor,
// the Observer, the Telemetry, the writer of a trace nor a caller is called, while it is held. A trace is appended to
// memory under it, and written by a goroutine of its own without.
//
// # Bounds
//
// What a trace keeps for its writer is at most 16 MiB twice; threads are as many as the lanes of the devices that there
// are, and those of removed ones that hang. Callers that wait for room (WaitWhenFull) are their owner's to bound.
package shell
