package sharedsched

import "time"

// Every number that tunes the scheduler is here, with its unit and its reason; the files of the rules name these only.
// They are constants and no settings: each was chosen in the simulator (docs/sim/README.md), and an operator has no
// better way to choose. Parts of a whole are given as their divisor, or as a fraction in whole numbers, so that results
// do not depend on rounding.

// Bounds on memory that is kept.
const (
	// maxQueues is the most live queues (distinct keys), and the most shapes, that one flow has of one version. Idle ones
	// make room for new ones.
	maxQueues = 256
	// maxOfAll is how many queues, and shapes, of one version are kept for all flows together while they are idle: one
	// for each identity, or all that four of them may have.
	maxOfAll = 1024
	// maxIdentities is how many identities have flows of their own on one device. Idle ones make room for new ones.
	maxIdentities = 1024
	// maxIdleKey is the longest key, in bytes, of a queue that is kept while it is idle: a key may hold the whole value
	// of an unbatched input, and the queue is quickly made again.
	maxIdleKey = 256
	// defaultQueuedBytes is Config.MaxQueuedBytes where it is zero, in bytes.
	defaultQueuedBytes = 1 << 30
	// logSize is how many decisions are remembered: the last moments of a busy device, in less than 100 kB.
	logSize = 256
)

// Targets and latest starts (target.go, stage.go).
const (
	// A task that brings no target gets this many full batches' time, within the two bounds: one batch may be running,
	// others go first, and its own takes one.
	targetBatches = 5
	minTarget     = 20 * time.Millisecond
	maxTarget     = time.Second
	// margin is the part (one twentieth) by which a batch should start earlier than its estimate says, and of the time
	// to its target that is kept for batches that grow meanwhile and others that are due with it.
	margin = 20
	// delivery is the most that is kept in addition, as much again as the margin, for timers and for delivering the
	// answer.
	delivery = Time(time.Millisecond)
)

// lately is how long overload is remembered: so long after a queue was full its stale tasks go behind the others, so
// long a flow has asked for more than its share, with no longer gaps, before any of its tasks is refused for that, so
// much of its share is saved for bursts, and over so long it is seen whether the device suffices for all, and other
// lanes for long batches. A burst is no flood, and when this ends it is seen what is still needed.
const lately = 2 * time.Second

// Admission (admit.go).
const (
	// A limit that is further away than all work and this many full batches is met without looking closer.
	farBatches = 2
	// defaultQueue is Settings.MaxQueue where it is zero.
	defaultQueue = 1000
	// admitPart is the part of the time to its limit (half) in which the share of a flow that asks for more must be
	// able to serve a task: the rest is for others that go first. More and some learn at the end of it that they are
	// given up.
	admitPart = 2
	// probeAfter is how long a shape may be refused on its estimates alone before one task is let through to check
	// them.
	probeAfter = 100 * time.Millisecond
	// minRetry is the least time after which another attempt is proposed where a queue is full.
	minRetry = time.Millisecond
)

// Overload (flood.go).
const (
	// staleTargets is for what part of the time to its target (half) a task without a limit keeps its place then.
	staleTargets = 0.5
	// patienceTargets is for how many times that time the first task of a queue may wait: beyond that callers have given
	// up, and before it there may be none but patient ones.
	patienceTargets = 10
	// lookedAt is how many tasks of a queue one event looks at to set stale ones back, or to find some that matter
	// less, or whose limits are not pressing: there may be thousands.
	lookedAt = 512
)

// Lanes that share a device's time (handover.go).
const (
	// handoverPart is the part of a batch in flight (a quarter) that may be left of it when the next one starts, if that
	// is less than Device.Handover: shorter batches would all run two at a time.
	handoverPart = 4
)

// Callers who ask again when they are answered (owed.go, gather.go).
const (
	// awaitPart is the part of a batch (half) for which at most the device waits for the callers that it answered.
	awaitPart = 2
	// awaitPauses is for how many of the longer of their latest two pauses it waits: most come in one.
	awaitPauses = 2
	// gatherOf is of how many pauses the longest but one counts where all are to get one batch: one may be an exception.
	gatherOf = 4
)

// The pick (pick.go).
const (
	// conflictBatches is within how many batches like the candidate's a rival that is due cannot count on being in
	// time: one for the candidate, one of about that length for itself. With one, 64 tenants of one model in overload
	// have batches of 49 instead of 53 rows; else it makes no difference.
	conflictBatches = 2
)

// Early drop (window.go).
const (
	// A batch that limits cut short is good enough with all but this part (one tenth) of the answers per device time of
	// one without the tasks that cut it short: what is given up is lost, and estimates are a little wrong.
	worthSpare = 10
	// lineAt is the part (a quarter) of the time between the expected end of a batch and the one that it hardly exceeds
	// up to which tasks with earlier limits are given up: later ones are in time in seven cases of ten.
	lineAt = 4
	// windowSteps is the part (an eighth) by which sizes are tried: near the best one the size hardly matters.
	windowSteps = 8
	// lookedAtEach is how many tasks of one other flow are looked at, or one could hide all others.
	lookedAtEach = lookedAt / 8
)

// What flows ask for, their shares, and the device cap that follows from their targets (recent.go, share.go, cap.go).
const (
	// askedFor is the time in which the work that a flow asked for is forgotten: less takes bursts for floods, more lets
	// a flood go first for longer.
	askedFor = 350 * time.Millisecond
	// targetsFor is how long a flow's targets count after its latest arrival: a model that is asked every few seconds
	// wants its answers as soon each time.
	targetsFor = 10 * time.Second
	// savedPart says how much of a flow's share (half) is saved for later while it does not ask for it: callers who
	// wait ask for about their part, now for more and now for less.
	savedPart = 2
	// surplus is how much more than there is all must ask for together before some are beyond their shares: arrivals
	// are uneven.
	surplus = 1.1
	// burstTargets is over how many times its target at least what a flow asks for is looked at where it came only
	// lately: a burst is no flood.
	burstTargets = 4
	// capSpare is the part of the least target (one third) that is left where one batch takes as much as it may: a target
	// leaves room for the batch that runs when its task arrives, and for some of its own.
	capSpare = 3
	// goodPower is the part of the greatest power that is about as good: near it power hardly changes with the size,
	// and estimates are a little wrong.
	goodPower = 0.9
	// nearlyLate is the part of the time until the last of a queue's tasks is due (one quarter) by which all that waits
	// must be served before that for the cap to hold: at the whole of it some are late.
	nearlyLate = 4
	// capPercentile is the part of a flow's targets (one tenth) that may be shorter than the one that counts: one
	// impatient caller among many is not to make all batches small.
	capPercentile = 10
	// sweepSteps is how many flows are looked at, at most each sweepStep: shares and the cap follow after a whole
	// round, at constant cost.
	sweepSteps = 16
	sweepStep  = time.Millisecond
	// histogramOf is how many targets of a flow are remembered: their counts are halved when there are that many.
	histogramOf = 1024
	// shortest is log2 of the target, in nanoseconds, below which targets are not told apart: 131 µs.
	shortest = 17
)

// Background work (guard.go).
const (
	// guardShare is the part (one tenth) of the smallest target for which a background batch may hold the device: the
	// next arrival is hardly delayed.
	guardShare = 10
	// guardSteps is in how many steps the smallest target is forgotten, each of them guardStep long: a second in all.
	guardSteps = 4
	guardStep  = time.Second / guardSteps
	// guardRows is how many times what one row takes a batch may take where that is too long already.
	guardRows = 2
)

// Device memory (memory.go).
const (
	// memoryKept bytes, or this part of the device (one twentieth) if that is more, are left alone: readings are old,
	// and engines take memory in pieces.
	memoryKept     = 512 << 20
	memoryKeptPart = 20
	// memoryStep is the divisor of the most rows when memory ran out, and the factor when more are tried again.
	memoryStep = 2
	// outOfMemoryFor is how long a size stays bounded so before more is tried: others give memory back in about that
	// time.
	outOfMemoryFor = time.Minute
)

// largestFor is for how long, at least, the cost of a full batch counts after a batch of its queue was started
// (load.go): a model that is asked every few seconds is in use all the time.
const largestFor = 30 * time.Second
