// Package sharedsched decides which batch of which model runs on which device, and when.
//
// # Goals
//
//   - Meet the targets and limits of as many tasks as the device can serve, in batches as large as that allows.
//   - When not every task can be served in time, share each device fairly among flows, in device time, by weight.
//   - Never leave a device idle while foreground work waits, unless a batch timeout asks for it.
//   - Refuse or give up at once every task that would miss its limit anyway, with the numbers that decided it; start no
//     row after its limit.
//   - Be explainable (every decision is kept with its reason), bounded (every queue states its limit) and
//     deterministic.
//
// # Parts
//
// Core is a value with one door, Step: an event and its time go in, actions come out. core.go has it with its
// invariants; event.go says what each event means, and policy.go has every number. The other files are named after a
// type (task, queue, shape, version, flow, device, lane), whose transitions they hold, or after a rule (admit, pick,
// form, settle, ...).
//
// Package shell surrounds it with a mutex, a timer, and one batch thread per lane of each device. The same Core runs in
// production, in tests and in the simulator (package sim). Package trace records the events that Core is given, and
// lets another Core decide them all again, bit for bit. Four small packages hold the mathematics: fairq (which flow is
// due, and which is behind its share), cost (how long an execution will take), iheap (priority queues), ring (waiting
// tasks, in order).
//
// # Words
//
//   - A task is the work of one request: rows, a key, a limit, a target, a priority. Its payload stays in the shell.
//   - A queue holds the tasks that may share an execution: those of one version with equal keys.
//   - A shape is the part of a key that, besides the rows, decides the cost of an execution. Queues whose keys differ
//     only in values share one.
//   - A version is one version of a model: its settings, its queues, its bound on waiting tasks.
//   - A flow is the unit of fairness: a version, or all versions of a model. Flows and queues are different things:
//     were fairness owed to queues, a model with forty shapes would get forty shares.
//   - A device has lanes; each lane runs one batch at a time on its own batch thread. Lanes of a CPU have a processor
//     each, and the device does as much in a second as all of them. Where lanes share the device's time, as on a GPU,
//     the second is for handing over the next batch before the last one ends, not for running two (handover.go).
//     Devices come and go; one that comes back is a new one of the same name, of which nothing is known.
//   - There are two classes of work: foreground work, whose callers wait for it, and background work (priority
//     Sheddable).
//   - A batch holds spans: ranges of rows of one or more tasks.
//   - The limit of a task is when its answer stops being worth anything; only it refuses and drops. The target is when
//     the answer is wanted; it orders, and ends batch timeouts. Clients set safety deadlines of half a minute, which
//     must not rank a request last.
//
// # States
//
// A task:
//
//	        Submit                  last row started              last row ended
//	(new) ────────▶ queued ──────────────────────▶ running ─────────────────▶ done
//	  │               │                               │
//	  │ refused       │ cancelled, expired, dropped,  │ an execution failed
//	  ▼               ▼ removed, closed, or failed    ▼
//	(error)         ending ── last started row ended ──▶ cancelled | expired | dropped | removed | closed | failed
//
// A queue:
//
//	resting    no batch may start: it is empty, holds a partial batch for its batch timeout, or waits for the first
//	           measurements of its shape's cost
//	pending    a batch may start, but nothing is lost by letting others go first
//	demanding  its batch is full, or no more tasks may wait; or it must start before the dearest batch that may go
//	           first on the device would end, if its first task is to meet its target; or its batch timeout has
//	           passed; or it is draining
//
// A partial batch is held until its oldest task has waited the timeout, or until the latest start for its soonest
// limit, or for a target that was named; not as long if another batch would run until then, and not again once a part
// of a task was started. A version is open, then closing (no new tasks, no holding), then gone. A device is there, or
// removed: its versions close at once, tasks that wait for it end, and batches that run on it end as usual. A flow
// demands service while one of its queues does.
//
// Why the middle state: to serve the most urgent first means to leave queues waiting on purpose, so that nearly every
// queue has work nearly always. Fair queueing over queues that merely have work would then serve them in turn, in small
// batches, whatever their urgency; in the simulator that carries three quarters of the load. Fairness is owed to the
// flows that demand service.
//
// # The pick
//
// When a lane is free, and on a device whose lanes share its time (Device.Handover) the batches in flight are about to
// end:
//
//  1. Tasks whose limit has come are dropped, and pending queues that have become urgent are made demanding.
//  2. Of the flows that demand service, those are eligible whose start tag (device time received, over the weight; see
//     fairq) is at most the fairness window above the least. The eligible flow that is due first, by the target of its
//     first task, is the candidate: the earliest deadline first.
//  3. If not even the candidate is in a hurry, all of them demand only because their batches are full: the flow
//     furthest behind goes first.
//  4. Otherwise the conflict rule, for a candidate whose flow has lately asked for more than its share of a contended
//     device: if others are due before two batches like the candidate's could end, and so much later as its flow is
//     ahead already, not all can be in time; of these the flow furthest behind goes first. Where there is no conflict,
//     fairness costs nothing.
//  5. If no flow demands service, the pending queue with the least slack goes: a device does not idle. If no foreground
//     task waits at all, background work gets the device, for batches of at most a tenth of the smallest target seen in
//     the last second, so that the next arrival is hardly delayed.
//  6. Of the chosen queue, a prefix in order of priority, target and arrival (but for overload: flood.go):
//     as many rows as MaxBatchSize, MaxBatchCost, the device cap and the device's memory allow. A task that fits no
//     batch is split over several; one that would fit the next batch whole waits for it. Behind foreground tasks,
//     background ones only take the place of padding.
//  7. The flow is charged the estimate, and when the batch ends the difference to the device time measured.
//
// Early drop: tasks at the head that would miss their limits even alone are given up. If the limits of the next ones
// would make the batch so small that it is worth less than seven tenths of a batch of those behind them, in rows per
// device time, they are given up too: in overload every task would else be served at its last moment, in batches of
// two, and the device be spent on fixed costs.
//
// The device cap: a batch cannot be taken back, so its device time is also bounded by how long others can wait: two
// thirds of the least, over the flows that ask for no more than their share, of each one's tenth percentile of targets
// (cap.go).
//
// Memory: a size at which a version ran well fits, whatever its shape; larger executions may take the memory that
// telemetry says is free, less a reserve; after one ran out of memory half of it is the most for its shape, and twice
// as much again each minute (memory.go).
//
// Admission: a task is refused when the device, serving nothing but the work that goes before it in its queue, would
// miss its limit; and where more work waits than the device can do by then, when one and a half times its flow's share
// would. An estimate that was never measured refuses and drops nothing, and one that nothing has confirmed for 100 ms
// lets a task through. In overload queues are kept short (flood.go): who would wait for more than half of the time to
// the target is refused at once, or goes last where it has no limit.
//
// This is scheduling by deadline with bounded lag, in the family of Clockwork (OSDI 2020), Nexus (SOSP 2019) and
// Symphony (2023) for deadlines and batches, and of start-time fair queueing (SIGCOMM 1996) and MQFQ (ATC 2019) for
// fairness. docs/SCHEDULER.md derives it and compares it with those systems; docs/sim/README.md has the figures: the
// worth of each part, and the load that each system carries.
//
// # Bounds
//
// Between two flows that demand service throughout an interval, the weighted device time they receive in it differs by
// at most 2W + C_i/w_i + C_j/w_j: W is the fairness window, C the largest cost of one batch, w the weight. Proof, for
// one lane and exact estimates: let S be the start tags and lo the least of those that demand. When i is served S_i ≤
// lo + W before the batch (as candidate it is eligible, and only a flow with a smaller tag ever takes the candidate's
// place), so S_i ≤ lo + W + C_i/w_i after it, and S_i stays until i is served again. Every flow that demands service
// from then on has at least that lo: those that did already, for tags do not fall, and those that begin to, for the
// virtual time they enter at is at least every lo at which a flow was served. So S_i - S_j ≤ W + C_i/w_i at every time,
// and by symmetry for j. Service received in an interval is w times the growth of S, and S_i - S_j moves between the
// two bounds: the sum is the claim. From a common start it is W + the larger of C_i/w_i and C_j/w_j, and with W = 0 no
// scheduler that does not preempt can do better than one batch. With D lanes and estimates that may be wrong the bound
// is argued and tested, not proven: a tag is the measured device time of batches that ended plus the estimates of those
// in flight, at most D of both flows together, and corrections are never lost (fairq), so that errors do not add up. Of
// the two flows one may be D batches wrong and the other D-1: 2W + (2D-1) times the larger of C_i/w_i and C_j/w_j plus
// the smaller, with C the largest cost there ever was. The tests drive two lanes with estimates that are a hundredfold
// wrong half the time, and come close to it.
//
// A flow that does not demand is owed nothing, and gains nothing by it: it comes back at the virtual time. The flow
// with the least tag waits at most until every other has had its window and a batch: W·Σw + ΣC.
//
// Cost: a pick and a task take O(log n) in the number of queues, flows and waiting tasks, and allocate nothing.
//
// Memory: tasks that wait are bounded per version and class (MaxQueue) and by bytes in all (Config.MaxQueuedBytes),
// queues by 256 per version, remembered decisions by 256.
package sharedsched
