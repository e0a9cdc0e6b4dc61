// Package sharedsched decides which model's batch runs on which device, and when.
//
// # Goals
//
//   - Meet the targets and limits of as many tasks as the device can serve, in batches as large as that allows.
//   - When not every task can be served in time, share each device fairly among flows, in device time, by weight: a
//     flow that asks for no more than its share loses nothing by others.
//   - Never leave a device idle while foreground work waits, unless a batch timeout asks for it, the cost of a shape is
//     being measured for the first time, or a short rest gains more (owed.go, gather.go, cap.go, handover.go).
//   - Refuse or drop a task once measured costs show that it would miss its limit. Start no row after its limit.
//   - Be explainable (every decision is kept with its reason), bounded (every queue has a bound) and deterministic.
//
// # Parts
//
// Core is a value with one door, Step: an event and its time go in, actions come out. core.go has it with its
// invariants; event.go says what each event means, and policy.go has every number. The other files are named after a
// type (task, queue, lane, ...), whose transitions they hold, or after a rule (admit, pick, form, settle, ...).
//
// Package shell surrounds it with a mutex, a timer, and one batch thread per lane of each device. The same Core runs in
// production, in tests and in the simulator (package sim). Package trace records the events that Core is given, and
// lets another Core decide them all again, bit for bit. Three small packages hold the mathematics: fairq (which flow is
// due, and which is behind), cost (how long an execution will take) and iheap (priority queues).
//
// # Words
//
//   - A task is the work of one request: rows, a key, a limit, a target, a priority. Its payload stays in the shell.
//   - A queue holds the tasks of one flow that may share an execution: those of one version with equal keys.
//   - A shape is the part of a key that, besides the rows, decides the cost of an execution. Queues may share one.
//   - A version is one version of a model: its settings, its queues, its bound on waiting tasks.
//   - A flow is the unit of fairness: a version, or all versions of a model, or an identity, such as a tenant of the
//     server, which tasks of any versions may name. If queues had shares, a model with forty shapes would have forty.
//   - A device has lanes; each lane runs one batch at a time on its own batch thread. Lanes of a CPU have a processor
//     each, and the device does as much in a second as all of them. Where lanes share the device's time, as on a GPU,
//     the second is for handing over the next batch before the last one ends, not for running two (handover.go).
//     Devices come and go; one that comes back is a new one of the same name, and nothing is known about it.
//   - Work has two classes: foreground work, whose callers wait for it, and background work (priority Sheddable).
//   - A batch holds spans: ranges of rows of one or more tasks.
//   - The limit of a task is when its answer loses its value. The target is when the answer is wanted: it orders, and
//     ends batch timeouts, but refuses and drops nothing. A long safety deadline must not rank a request last.
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
//	resting    no batch may start: it is empty, holds a partial batch for its batch timeout, waits for the first
//	           measurements of its shape's cost, or has background work that may not run now (guard.go)
//	pending    a batch may start, but nothing is lost if others go first
//	demanding  its batch is full, or no more tasks may wait; or it must start before the most expensive batch that may
//	           go first on the device would end (stage.go: promote), if its first task, and that of the next queue,
//	           are to meet their targets; or its batch timeout has passed; or it is draining
//
// A partial batch is held until its oldest task has waited the timeout, or until the latest start for its soonest
// limit, or for a target that was named. It is held less long if another batch would run until then, and not again once
// a part of a task was started. A version is open, then closing (no new tasks, no holding), then gone. A device is
// there, or removed: its versions close at once, tasks that wait for it end, and batches that run on it end as usual. A
// flow demands service while one of its queues does.
//
// The middle state exists because serving the most urgent first leaves queues waiting on purpose, so that nearly every
// queue has work nearly always. Fair queueing over all queues with work would serve them in turn, in small batches,
// whatever their urgency. So only queues that demand service take precedence.
//
// # Shares
//
// A flow is beyond its share while it asks for more than its part, by weighted max-min fairness (share.go), of a device
// that cannot do all that is asked of it. Its demand is the device time of the rows that came lately, admitted or not,
// in batches as large as they get at that rate; or of the rows that wait, if they are late. A flow that asks for less
// than half of its part saves some of it for bursts. A flow that is a second of service ahead of others that demand it
// is beyond its share in any case. All other flows are within their shares, and all that they ask for can be served.
//
// # The pick
//
// When a lane is free (on a device with Device.Handover, when the batches in flight are also about to end):
//
//  1. Tasks whose limit has passed are dropped, and pending queues that have become urgent are made demanding.
//  2. Of the flows within their shares that demand service, the one goes whose first task has the earliest target.
//  3. If there is none, the same holds among flows beyond their shares, except for two rules. Conflict rule: let c be
//     the flow that is due first. Its horizon is two batches like its own, plus its lead in start tag over the flow
//     furthest behind (a start tag is the device time received, over the weight; see fairq). Of the flows due within
//     the horizon not all can be in time, so the one furthest behind goes; from a horizon of a second on, all flows
//     count. Owed service: before all of these goes a pending queue whose flow is behind them and whose first task
//     named no time. Its callers ask again once they are answered, and the device waits a moment for them (owed.go).
//  4. If no flow demands service, the pending queue with the least slack goes: a device does not idle, but for callers
//     that it has just answered, if one batch for them and for those who wait saves more (gather.go). If no foreground
//     task waits at all, background work gets the device, in batches of at most a tenth of the smallest target seen in
//     the last second, so that the next arrival is hardly delayed. If one row takes longer, a batch may run once ten
//     times its length has passed since the last such batch. So background work always makes progress.
//  5. Of the chosen queue, a prefix in order of target and arrival (but for overload: flood.go): as many rows as
//     the settings, memory, what was measured, deadlines, the device cap and the allowed sizes let it have (form.go). A
//     task of more rows than that is split over several; one that would fit the next batch whole waits for it. A batch
//     with room takes tasks of other flows for the same version and key along, the earliest due first (along.go). Tasks
//     of flows within their shares go before all but the first task of a flow beyond its own. Tasks of flows beyond
//     their shares join only batches of such flows, and only if their lead is short. Behind foreground tasks,
//     background ones only take the place of padding.
//  6. Each flow is charged the estimate, by its part of the rows, and at the end the difference to the measured time.
//
// Beside a batch in flight that is not about to end, a short one starts that would be late at its turn (handover.go).
// Where lanes have processors of their own, a lane is kept for batches within the device cap, as long as the others
// suffice for the flows whose single row takes longer (cap.go).
//
// Early drop: tasks at the head that would miss their limits even alone are dropped. If the limits of the next ones
// would make the batch so small that it is worth less than nine tenths of the best one of those behind them, in answers
// in time per device time, they are dropped too, unless one of them has a higher priority than one behind. Tasks of
// flows that share the batch count like those behind, but for their sake none is dropped that would not be in time in
// that batch even if it were new (window.go). Otherwise every task would be served at its last moment in overload, in
// batches of two, and the device be spent on fixed costs.
//
// The device cap: nothing interrupts a batch, so its device time is also bounded by how long others can wait: two
// thirds of the least, over the flows within their shares, of each one's tenth percentile of targets, less the margins
// of an answer's way. No batch is cut below the size of the greatest power, and of a flow within its share none so far
// that its waiting tasks would be late for it (cap.go).
//
// Memory (memory.go): a size at which a version ran well fits, whatever its shape. Larger executions may take the
// memory that telemetry says is free, less a reserve. Half of a size that ran out of memory is the most for its shape,
// and doubles each minute.
//
// Admission: a task is refused when the device, serving only the work that goes before it in its queue, would miss its
// limit. A task with a limit of its own is also refused when its flow has been beyond its share for 2 s, another flow
// asks for the device, which does not suffice for all, and that share would not serve the work before the task within
// half of the time. Tasks of lower priority make room for it. An estimate that was never measured refuses and drops
// nothing, and one that nothing has confirmed for 100 ms lets a task through. While batches could be larger than any
// that was measured, the work before a task refuses no task.
//
// This is scheduling by deadline with max-min shares, in the family of Clockwork (OSDI 2020), Nexus (SOSP 2019) and
// Symphony (2023) for deadlines and batches, and of start-time fair queueing (SIGCOMM 1996) for fairness.
// docs/internals/scheduler.md has its rules as formulas; docs/sim/README.md has figures: the worth of each part, and
// the load that other systems carry.
//
// # Bounds
//
// Deadlines, for one lane and exact estimates: the first task of a queue of a flow within its share, unless it is held
// or set back, is started in time for its target, or late by no more than the batches of other flows within their
// shares that are due before it and start after its queue demands, what its own batch has grown by since it is the
// first, and, if it arrives less than a batch before its latest start, the rest of the batch that runs then, which the
// device cap bounds. Proof: let l be its latest start, for a batch as large as it was when it became the first. At a
// pick at which its queue does not demand yet, l is later than the end of the longest batch that may start. What starts
// is no longer than that, for a batch has no more rows than its queue was looked at with last (plan, form), and for
// callers the device waits no longer than that. So the next pick is before l, its queue demands at some pick before l,
// and from then on only flows within their shares that are due before it go first. Neither a flood nor a heavy batch
// makes it late. TestDeadlines searches for counter-examples.
//
// Shares, for one lane and exact estimates: between two flows i and j that demand service beyond their shares
// throughout an interval, the weighted device time that they receive in it differs by at most 2T + C_i/w_i + C_j/w_j: T
// is the longest time from the arrival of a task of such a flow to its target, or a second if that is shorter, or the
// longest batch that takes tasks along if that is longer, C the largest part of a flow in the cost of one batch, w the
// weight, which is constant. A flow that came into the interval with a larger lead than T + C_i/w_i, for what it got
// within its share is charged too, gives way until it has none: that lead stands in place of T + C_i/w_i. Proof: let S
// be the start tags and lo the least tag of a flow that demands. When i is served as the one that is due first, every
// rival is due no earlier than 2 C_i + S_i - lo from then, which is less than a second, and a task is due no later than
// the longest such time from then: so S_i ≤ lo + T before the batch. When it is served as the one furthest behind of
// the flows that are due so soon, its tag is no more than that of the one due first, for which that holds. When tasks
// of it are taken along, S_i - lo is no more than that batch takes. So S_i ≤ lo + T + C_i/w_i after it, and S_i stays
// until i is served again. Every flow that demands service from then on has at least that lo: one that did already,
// because tags do not fall, and one that begins to, because the virtual time it enters at is at least every lo at which
// a flow was served. So S_i - S_j ≤ T + C_i/w_i at every time, and by symmetry for j. Service received in an interval
// is w times the growth of S, and S_i - S_j moves between the two bounds: the sum is the claim. With D lanes and
// estimates that may be wrong the bound is argued and tested, not proven: a tag is the measured device time of batches
// that ended plus the estimates of those in flight, at most D of both flows together, and corrections are never lost
// (fairq), so that errors do not add up: 2T + (2D-1) times the larger of C_i/w_i and C_j/w_j plus the smaller, with C
// the largest cost there ever was. The tests drive two lanes with estimates that are a hundredfold wrong half the time.
//
// A flow that does not demand gains nothing by it: it comes back at the virtual time, or is behind it by as much as the
// latest batch of a flow that demands moved lo, for it may have waited for that batch.
//
// Cost: a pick and a task take O(log n) in the number of queues, flows and waiting tasks, and allocate nothing. A pick
// at which queues become urgent takes as much for each of them, which each of them pays once until it is served.
//
// Memory: tasks that wait are bounded per version, flow and class (MaxQueue), or by their limits, and by bytes in all
// (Config.MaxQueuedBytes), which are all flows' together. There are 256 queues per version and flow, 1,024 idle ones
// per version, 1,024 flows of identities per device, and 256 remembered decisions.
package sharedsched
