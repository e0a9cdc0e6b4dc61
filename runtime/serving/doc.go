// Package serving holds the versions that answer requests: on which devices each of them runs, how its batches are
// proven and formed, and when it is taken out of batching. A Version has a Replica on each of its devices, which is a
// session, a plan of its executions, and a version of the scheduler by itself. Its Owner decides when it is loaded and
// when it goes.
//
// Locks: Version.tuning is held while the settings and the plan of a replica change, flows.mu while a flow is used or
// released; both across calls of the scheduler, which never calls back with its own lock held. An engine and the Owner
// are never called with either held.
package serving
