package activity

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

const keptBatches = 32_768

// batch is an execution that ended.
type batch struct {
	sharedsched.BatchEvent

	of, passedOver *tracked // nil: unknown, or none
	proof          bool     // of batching, or warm-up: the version was not ready yet
}

func (b *batch) ended() sharedsched.Time { return b.Started.Add(b.Elapsed) }

// The flags of a batch in Activity.
const (
	flagLate = 1 << iota
	flagFailed
	flagBackground
	flagProof
)

func (b *batch) flags() (f uint32) {
	for flag, is := range map[uint32]bool{
		flagLate: b.Missed > 0, flagFailed: b.Failed, flagBackground: b.Background, flagProof: b.proof,
	} {
		if is {
			f |= flag
		}
	}
	return f
}

// BatchDone implements shell.Observer.
func (l *Log) BatchDone(e sharedsched.BatchEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.ofLocked(e.Version, e.Device)
	if !of.serving {
		m := l.Models().Model(of.model)
		v := (*catalog.Version)(nil)
		if m != nil {
			v = m.Version(of.version)
		}
		of.serving = v != nil && v.State == catalog.Ready
	}
	b := batch{BatchEvent: e, of: of, proof: !of.serving}
	if e.PassedOver != sharedsched.NoVersion {
		b.passedOver = l.ofLocked(e.PassedOver, e.Device)
	}
	l.batches.add(b)

	t := &of.totals
	t.busy += e.DeviceTime
	if !b.proof {
		t.batches++
		t.rows += uint64(e.Rows)
		t.padded += uint64(e.Padded - e.Rows)
		t.flushes[e.Reason]++
	}
	s := of.slot(l.secondOf(b.ended()))
	s.batches++
	s.rows += uint32(e.Rows)
	s.busy += e.DeviceTime
	if e.Background || b.proof {
		s.background += e.DeviceTime
	}
	l.busy[e.Device] += e.DeviceTime
}

// secondOf returns the second of the run in which a time lies.
func (l *Log) secondOf(t sharedsched.Time) int64 { return int64(time.Duration(t) / time.Second) }

// ms returns a time or a duration in milliseconds, to the microsecond.
func ms[T ~int64](t T) float64 { return float64(int64(t)/1e3) / 1e3 }
