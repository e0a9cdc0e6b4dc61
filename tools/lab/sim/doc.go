// Package sim compares scheduling policies under virtual time against synthetic load; the server's own scheduler is one
// of them.
//
// # Parts
//
// Run is a discrete-event simulation of one device, driven from one goroutine: requests arrive, a Policy chooses the
// batches of free lanes, batches end. Batches in flight together share the device's speed equally. The device departs
// from the profiled costs by noise, rare stalls, changes of its clock and a neighbour that comes and goes (Device). A
// policy may learn of those by telemetry, which is sampled at times of its own.
//
// A Workload is models and how their requests arrive. Suite is the eight workloads that policies are compared on,
// Bursts some more, Scenes are workloads at one load that are made to hurt some of the flows, Shifts are changes of the
// device that telemetry reports to the server's scheduler, or does not. A policy is made by a Maker: Core makes the
// server's scheduler, the very code that the server runs, taught by warm-up as the server does; Baselines the policies
// of other servers and papers; Variants the server's scheduler with a part changed. Baselines that differ only in a
// parameter are a Family. One of them is chosen for each workload in a short run on a training seed (tune).
//
// A Study plays policies on workloads and finds the figures, Findings writes them as tables.
//
// # Figures
//
//   - g99: the highest load at which 99 % of the requests are on time (G99), in units of the fluid capacity
//     (toCapacity).
//   - Share on time: of all requests, of the flows that ask for no more than their fair share (InShare), of the worst
//     flow.
//   - Device time for results on time and for late ones, and time that the device was idle while requests waited
//     (Tally, Result).
//   - Prediction error: |actual / estimate - 1| of the batches whose estimate a policy states (Prediction).
//
// # Differences from a real device
//
// Costs are linear in rows and synthetic, requests have one row, one device serves all, and the time that the scheduler
// itself takes is not counted. Batches in flight together share the device equally, and gain nothing by it, or a fixed
// part of their work (Overlap), or by overlapping a fixed part of each with the other's computing (Copying); a real
// device switches between kernels as it likes. Independent batchers, which run several models at once, share the device
// without loss; real devices lose. All policies but the server's scheduler know the true costs from the beginning.
//
// # Determinism
//
// The same seed gives the same run. All policies see the same requests (paired seeds), and a seed gives the same
// pattern at every load, only denser, so that differences between figures are due to the policies.
package sim
