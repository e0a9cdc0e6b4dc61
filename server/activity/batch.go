package activity

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

const keptBatches = 32_768

// batch is an execution that ended, as sharedsched.BatchEvent has it. It has no pointers.
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

func (b *batch) ended() sharedsched.Time { return b.started.Add(b.elapsed) }

// The flags of a batch in Activity.
const (
	flagLate = 1 << iota
	flagFailed
	flagBackground
	flagProof // of batching, or warm-up: the version was not ready yet
)

// BatchDone implements shell.Observer.
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

// spreadLocked counts the device time of a batch in the seconds in which it ran, as far as they are in the window.
func (l *Log) spreadLocked(of *tracked, b *batch, background bool) {
	first, last := l.secondOf(b.started), l.secondOf(b.ended())
	for second := max(first, last-windowSeconds+1); second <= last; second++ {
		part := b.deviceTime
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

// publishedLocked notes whether a version was published as ready.
func (l *Log) publishedLocked(t *tracked) {
	if t.serving {
		return
	}
	if m := l.Models().Model(t.model); m != nil {
		v := m.Version(t.version)
		t.serving = v != nil && v.State == catalog.Ready
	}
}

// secondOf returns the second of the run in which a time lies.
func (l *Log) secondOf(t sharedsched.Time) int64 { return int64(time.Duration(t) / time.Second) }

// ms returns a time or a duration in milliseconds, to the microsecond.
func ms[T ~int64](t T) float64 { return float64(int64(t)/1e3) / 1e3 }
