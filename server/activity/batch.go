package activity

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// keptBatches is how many of the latest batches are remembered: half a minute of a thousand batches a second, in about
// 3 MB.
const keptBatches = 32_768

// batch is an execution that ended, as sharedsched.BatchEvent has it. It has no pointers, so that the garbage collector
// does not look through the ring.
//
// Of and passedOver are indexes in Log.all. Rows counts what tasks brought, padded the rows that were executed;
// demanding counts the flows that demanded service when it started, and waited the tasks of its queue that it left
// waiting. Slack is how much later it could have started in time for its first target; below 0 it was too late.
type batch struct {
	number                                 uint64
	started                                sharedsched.Time
	elapsed, deviceTime, estimated, slack  time.Duration
	of, passedOver                         int32 // versions; none: -1
	lane                                   sharedsched.LaneID
	tasks, rows, padded, demanding, waited int32
	reason                                 sharedsched.FlushReason
	rule                                   sharedsched.PickRule
	flags                                  uint8
}

// ended returns the end as the batch was timed; batches are added in the order in which they were reported, which is
// nearly that of their ends.
func (b *batch) ended() sharedsched.Time { return b.started.Add(b.elapsed) }

// The flags of a batch in Activity. flagLate: it answered a request after a target that the request itself named. It
// says nothing of how long the batch ran.
const (
	flagLate = 1 << iota
	flagFailed
	flagBackground
	flagProof // of batching, or warm-up: the version was not ready yet
)

// BatchDone implements shell.Observer. The scheduler's lock is not held. Batches of proofs and warm-ups are in the
// window and its device time, but not in the version's totals of batches and rows: no caller asked for them.
func (l *Log) BatchDone(e sharedsched.BatchEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.ofLocked(e.Version, e.Device)
	l.publishedLocked(of)
	b := batch{
		number: e.Number, started: e.Started, elapsed: e.Elapsed, deviceTime: e.DeviceTime, estimated: e.Estimated,
		slack: e.Slack, of: of.index, passedOver: -1, lane: e.Lane, tasks: int32(e.Tasks), rows: int32(e.Rows),
		padded: int32(e.Padded), demanding: int32(e.Demanding), waited: int32(e.Left), reason: e.Reason, rule: e.Rule,
	}
	if e.PassedOver != sharedsched.NoVersion {
		b.passedOver = l.ofLocked(e.PassedOver, e.Device).index
	}
	if e.Missed > 0 {
		b.flags |= flagLate
	}
	if e.Failed {
		b.flags |= flagFailed
	}
	if e.Background {
		b.flags |= flagBackground
	}
	if !of.serving {
		b.flags |= flagProof
	}
	l.batches.add(b)

	t := &of.totals
	t.busy += e.DeviceTime
	if of.serving {
		t.batches++
		t.rows += uint64(e.Rows)
		t.padded += uint64(e.Padded - e.Rows)
		t.flushes[e.Reason]++
	}
	s := of.slot(l.secondOf(b.ended()))
	s.batches++
	s.rows += uint32(e.Rows)
	l.spreadLocked(of, &b, e.Background || !of.serving)
	l.busy[e.Device] += e.DeviceTime
}

// spreadLocked counts the device time of a batch in the seconds in which it ran, as far as they are in the window: each
// gets the part of the device time that it has of the elapsed time. A batch of three seconds would otherwise seem to
// use its device threefold in one second. Proofs count as background, too.
func (l *Log) spreadLocked(of *tracked, b *batch, background bool) {
	first, last := l.secondOf(b.started), l.secondOf(b.ended())
	for second := max(first, last-windowSeconds+1); second <= last; second++ {
		part := b.deviceTime
		// Only its part of this second; within one second, and for a batch that took no time, that is all of it.
		if first < last {
			begin := sharedsched.Time(time.Duration(second) * time.Second)
			within := min(b.ended(), begin.Add(time.Second)).Sub(max(b.started, begin))
			part = time.Duration(float64(b.deviceTime) * float64(within) / float64(b.elapsed))
		}
		s := of.slot(second)
		s.busy += part
		if background {
			s.background += part
		}
	}
}

// publishedLocked notes whether a version was published as ready. The snapshot is asked because lookLocked may not have
// seen it yet. Once serving, a version stays so: its batches are work of callers from then on.
func (l *Log) publishedLocked(t *tracked) {
	if t.serving {
		return
	}
	if m := l.Models().Model(t.model); m != nil {
		v := m.Version(t.version)
		t.serving = v != nil && v.State == catalog.Ready
	}
}

// secondOf returns the second of the run in which a time lies, counted from 0 at Epoch. All counts by time are by
// these.
func (l *Log) secondOf(t sharedsched.Time) int64 { return int64(time.Duration(t) / time.Second) }

// ms returns a time or a duration in milliseconds, to the microsecond.
func ms[T ~int64](t T) float64 { return float64(int64(t)/1e3) / 1e3 }
