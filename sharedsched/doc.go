// Package sharedsched decides which batch of which model runs on which device, and when.
//
// # Goals
//
//   - Share each device fairly among flows, in device time, by weight.
//   - Never leave a device idle while foreground work waits, unless a batch timeout asks for it.
//   - Batch as much as device time allows; refuse what certainly misses its limit, and never start a row after it.
//   - Answer overload at once, with the numbers that decided it.
//   - Be explainable (every decision is kept with its reason), bounded (every queue states its limit) and deterministic.
//
// # Parts
//
// Core is a value: events with their time go in, actions come out. Scheduler is the shell around it: a mutex, a timer, and one
// batch thread per lane of each device. The same Core runs in production, in tests and under simulated time. Three small
// packages hold the mathematics: fairq (who is behind its share), cost (what an execution will take), iheap (a priority queue).
//
// # Words
//
//   - A task is the work of one request: rows, a key, a limit, a target, a priority. Its payload stays in the shell.
//   - A queue holds the tasks that may share an execution: those of one version with equal keys.
//   - A version is one version of a model: its settings, its queues, its bound on waiting tasks.
//   - A flow is what fairness is owed to: a version, or all versions of a model. Flows and queues are different things: were
//     fairness owed to queues, a model with forty shapes would get forty shares.
//   - A device has lanes; each lane runs one batch at a time on its own batch thread.
//   - A batch holds spans: ranges of rows of one or more tasks.
//   - The limit of a task is when its answer stops being worth anything; only it refuses and drops. The target is when the
//     answer is wanted; it only orders. Clients set safety deadlines of half a minute, which must not rank a request last.
//
// # States
//
// A task:
//
//	        Submit                  last row started              last row ended
//	(new) ────────▶ queued ──────────────────────▶ running ─────────────────▶ done
//	  │               │                               │
//	  │ refused       │ cancelled, expired, closed,   │ an execution failed
//	  ▼               ▼ or an execution failed        ▼
//	(error)         ending ── last started row ended ──▶ cancelled | expired | closed | failed
//
// A queue is ready when a batch of it may start. It is not ready when it is empty, when it holds a partial batch for its batch
// timeout, or while the first measurements of its shape's cost are being taken. A partial batch is held until its oldest task has
// waited the timeout, or until its soonest limit could no longer be met. A version is open, then closing (no new tasks, no
// holding), then gone.
//
// # The pick
//
// When a lane is free:
//
//  1. Tasks whose limit has come are dropped.
//  2. Among the flows with a ready queue whose head is foreground work, the one with the smallest start tag is served
//     (start-time fair queueing, see fairq). If no foreground task waits on the device at all, the same is done for background.
//     What is draining counts as foreground, lest a busy device keep a version from going.
//  3. Of its ready queues, the one whose head has the earliest target.
//  4. Of that queue, a prefix in order of priority, target and arrival: as many rows as MaxBatchSize and MaxBatchCost allow. A
//     task that fits no batch is split over several; one that would fit the next batch whole waits for it. Behind foreground
//     tasks, background ones only take the place of padding.
//  5. The flow is charged the estimate, and when the batch ends the difference to the device time measured.
//
// # Bounds
//
// Between two flows that have ready work throughout an interval, the weighted device time they receive in it differs by at most
// D·(C_i/w_i + C_j/w_j): C is the largest cost of one batch, estimated or measured, w the weight, D the number of lanes. Proof, for
// one lane and exact estimates: let S be the start tags. When i is served S_i is the smallest, so S_i ≤ S_j before the batch and
// S_i ≤ S_j + C_i/w_i after it; while i is not served S_i stays and S_j only grows. So S_i - S_j ≤ C_i/w_i at every time, and by
// symmetry S_j - S_i ≤ C_j/w_j. Service received in an interval is w times the growth of S, hence the bound. With D lanes and
// estimates that may be wrong the bound is argued, not proven: a tag is what was measured of batches that ended plus the estimates
// of those in flight, at most D; a batch of i starts only while S_i ≤ S_j, and corrections are never lost (fairq), so that errors
// do not add up. TestLagBoundHoldsAfterEveryDecision drives two lanes with estimates that are a hundredfold wrong half the time.
//
// A flow that is not ready is owed nothing, and gains nothing by it: it comes back at the virtual time.
//
// Memory: tasks that wait are bounded per version (MaxQueue) and by bytes in all (Config.MaxQueuedBytes), queues by 256 per
// version, remembered decisions by 256, threads by the sum of lanes.
//
// # Invariants
//
// They hold between any two events; the tests check them after each one.
//
//   - Every admitted task ends exactly once, by exactly one TaskEnded action.
//   - A task is in its queue's ring exactly if it has rows that were not started and is to start them.
//   - A queue is in its flow's ready heap exactly if it is ready, and a flow is active exactly if that heap is not empty.
//   - The shares of device time of all batches sum to the device's busy time.
//   - Counts (waiting rows, queued tasks, queued bytes, foreground tasks) equal a recount.
//   - Virtual time never decreases.
//
// # Locks
//
// Scheduler.mu guards Core and everything marked so. It is a leaf: nothing else is locked, and neither the Executor, the Observer
// nor a caller is called, while it is held.
package sharedsched
