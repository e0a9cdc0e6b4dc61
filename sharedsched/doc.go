// Package sharedsched decides which model's batch runs on which device, and when.
//
// # Goals
//
//   - Meet the targets and limits of as many tasks as the device can serve, in batches as large as that allows.
//   - When not every task can be served in time, share each device fairly among flows, in device time, by weight: who
//     asks for no more than his share loses nothing by others.
//   - Never leave a device idle while foreground work waits, unless a batch timeout asks for it, or a moment of rest
//     earns more (owed.go, cap.go).
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
// due, and which is behind), cost (how long an execution will take), iheap (priority queues), ring (waiting
// tasks, in order).
//
// # Words
//
//   - A task is the work of one request: rows, a key, a limit, a target, a priority. Its payload stays in the shell.
//   - A queue holds the tasks of one flow that may share an execution: those of one version with equal keys.
//   - A shape is the part of a key that, besides the rows, decides the cost of an execution. Queues whose keys differ
//     only in values share one.
//   - A version is one version of a model: its settings, its queues, its bound on waiting tasks.
//   - A flow is the unit of fairness: a version, or all versions of a model, or an identity, such as a tenant of the
//     server, which tasks of any versions may name. Flows and queues are different things: were shares those of queues,
//     a model with forty shapes would get forty.
//   - A device has lanes; each lane runs one batch at a time on its own batch thread. Lanes of a CPU have a processor
//     each, and the device does as much in a second as all of them. Where lanes share the device's time, as on a GPU,
//     the second is for handing over the next batch before the last one ends, not for running two (handover.go).
//     Devices come and go; one that comes back is a new one of the same name, and nothing is known about it.
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
//	           first on the device would end (stage.go: promote), if its first task, and that of the next queue, are to
//	           meet their targets; or its batch timeout has passed; or it is draining
//
// A partial batch is held until its oldest task has waited the timeout, or until the latest start for its soonest
// limit, or for a target that was named; not as long if another batch would run until then, and not again once a part
// of a task was started. A version is open, then closing (no new tasks, no holding), then gone. A device is there, or
// removed: its versions close at once, tasks that wait for it end, and batches that run on it end as usual. A flow
// demands service while one of its queues does.
//
// Why the middle state: to serve the most urgent first means to leave queues waiting on purpose, so that nearly every
// queue has work nearly always. Fair queueing over queues that merely have work would then serve them in turn, in small
// batches, whatever their urgency. Only what demands service takes precedence over anything.
//
// # Shares
//
// A flow is beyond its share while it asks for more than its part of a device that cannot do all that it is asked for,
// by weighted max-min fairness (share.go). What it asks for is the device time of the rows that came of late, admitted
// or not, in batches as large as they get at that rate; or of the rows that wait, if they are late. A flow that asks
// for much less saves some of its part for bursts. One that is a second of service ahead of others that demand it is
// beyond its share in any case. All other flows are within their shares, and what they ask for can all be served.
//
// # The pick
//
// When a lane is free, and on a device whose lanes share its time (Device.Handover) the batches in flight are about to
// end:
//
//  1. Tasks whose limit has come are dropped, and pending queues that have become urgent are made demanding.
//  2. Of the flows within their shares that demand service the one goes that is due first, by the target of its first
//     task: the earliest deadline first.
//  3. If there is none, the same holds among flows beyond their shares, but for the conflict rule: if others are due
//     before two batches like that of the first could end, and so much later as it is ahead already, not all can be in
//     time; of these the flow furthest behind goes first, by its start tag (device time received, over the weight; see
//     fairq). Once that comes to a second all others count. Before all of these goes a flow that is behind them, and
//     whose callers named no time: they ask again once they are answered, and the device waits a moment for them
//     (owed.go).
//  4. If no flow demands service, the pending queue with the least slack goes: a device does not idle. If no foreground
//     task waits at all, background work gets the device, for batches of at most a tenth of the smallest target seen in
//     the last second, so that the next arrival is hardly delayed. Where one row takes more than that, a batch may run
//     once ten times its length has passed since the last such batch: background work always gets on.
//  5. Of the chosen queue, a prefix in order of target and arrival (but for overload: flood.go): as many rows as
//     the settings, memory, what was measured, deadlines, the device cap and the allowed sizes let it have (form.go). A
//     task of more rows than that is split over several; one that would fit the next batch whole waits for it. A batch
//     with room takes tasks of other flows for the same version and key along, the earliest due first (along.go). Of
//     flows within their shares they go before all but the first task of a flow beyond its own; of flows beyond their
//     shares they join only batches of others, and only if not far ahead. Behind foreground tasks, background ones
//     only take the place of padding.
//  6. Each flow is charged the estimate, by its part of the rows, and when the batch ends the difference to the device
//     time measured.
//
// Beside a batch in flight that is not about to end, a short one starts that would be late at its turn (handover.go).
// Where lanes have processors of their own, a lane is kept for batches within the device cap, as long as the others
// suffice for the flows whose single row takes longer (cap.go).
//
// Early drop: tasks at the head that would miss their limits even alone are given up. If the limits of the next ones
// would make the batch so small that it is worth less than four fifths of a batch of those behind them, in rows per
// device time, they are given up too, unless they matter more: in overload every task would else be served at its last
// moment, in batches of two, and the device be spent on fixed costs.
//
// The device cap: a batch cannot be taken back, so its device time is also bounded by how long others can wait: two
// thirds of the least, over the flows within their shares, of each one's tenth percentile of targets, less the margins
// of an answer's way. No batch is cut below the size of the greatest power, and of a flow within its share none so far
// that its waiting tasks would be late for it (cap.go).
//
// Memory: a size at which a version ran well fits, whatever its shape; larger executions may take the memory that
// telemetry says is free, less a reserve; after one ran out of memory half of it is the most for its shape, and twice
// as much again each minute (memory.go).
//
// Admission: a task is refused when the device, serving nothing but the work that goes before it in its queue, would
// miss its limit; and of a flow that has been beyond its share for 2 s, while another asks for the device and that does
// not suffice, when that share would not serve the work before it within half of the time. Tasks that matter less make
// room for it. An estimate that was never measured refuses and drops nothing, and one that nothing has confirmed for
// 100 ms lets a task through. While batches could be larger than any that was measured, the work before a task refuses
// nobody.
//
// This is scheduling by deadline with max-min shares, in the family of Clockwork (OSDI 2020), Nexus (SOSP 2019) and
// Symphony (2023) for deadlines and batches, and of start-time fair queueing (SIGCOMM 1996) for fairness.
// docs/internals/scheduler.md derives it, has its rules as formulas, and compares it with those systems;
// docs/sim/README.md has the figures: the worth of each part, and the load that each system carries.
//
// # Bounds
//
// Deadlines, for one lane and exact estimates: the first task of a queue of a flow within its share, unless it is held
// or set back, is started in time for its target, or late by no more than the batches of other flows within their
// shares that are due before it and start after its queue demands, what its own batch has grown by since it is the
// first, and, if it arrives less than a batch before its latest start, the rest of the batch that runs then, which the
// device cap bounds. Proof: let l be its latest start, for a batch as large as it was when it became the first. At a
// pick at which its queue does not demand yet, l is later than the end of the dearest batch that may start. What starts
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
