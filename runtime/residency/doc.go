// Package residency decides which versions are loaded, on which devices, and what happens next. It is a pure state
// machine: Machine.Step takes the time and an Event and returns the Effects to carry out; it has no goroutine, no
// clock, no lock and no file. The package host is its shell.
//
// # A version
//
//	          listed                loaded                 files changed
//	absent ─────────► loading ─────────────────► ready ◄──────────────► replacing
//	   ▲                │  ▲                      │ │       loaded, or
//	   │         failed │  │ retry, or room      │ │       failed
//	   │                ▼  │                      │ │ the last replica's device is lost
//	   │              failed ◄────────────────────┼─┘ (loading, if the version is still wanted)
//	   │                │            not wanted   ▼
//	   └────────────────┴───────────────────── draining
//
// A ready version has one replica or several, each on one incarnation of one device. A replica that leaves (its version
// was replaced, it moved to a better device, the load asks for fewer, its device was lost) is retiring: it answers the
// requests that it accepted and is closed.
//
// # Convergence
//
// Events only note the wanted and the actual state. After each event the machine converges the models that it touched:
// if no effect of a model is running, it compares the model's actual state with the wanted one and starts the next
// step. The steps of one model follow each other in this order: changed settings, unloading, loading, upgrades to
// better devices, fewer replicas, more replicas. So neither the order in which wishes come matters, nor which step was
// interrupted. Models do not wait for each other.
//
// # Invariants
//
// The tests check them after each event of random histories: at most one resident version per number; no replica in two
// places; no replica of a version on a lost device; an effect that was started is counted until its event comes;
// whatever leaves a version is retired exactly once; a model without a running effect is as wanted, waits for a time
// that was announced by WakeAt, or waits for room or for a caller to change something.
package residency
