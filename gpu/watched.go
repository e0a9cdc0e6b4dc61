package gpu

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// patience is after how many sweeps in a row without an answer a device is left alone. One that is lost is so at
	// once.
	patience = 3
	// Blackouts grow from the first to the last of these by doubling.
	firstBlackout, lastBlackout = time.Second, 5 * time.Minute
	// steady is for how long a device must answer to be back. A device that answers now and then is left alone ever
	// longer, and logged once.
	steady = time.Minute
)

// watched is a device of a Sampler.
type watched struct {
	Device
	index   int // in the Source
	sampler *Sampler
	fallBacks
	latest atomic.Pointer[published] // nil before the first sample

	// Everything below is the poller's alone.
	next     Sample        // the known values, to be published
	number   uint64        // of the latest
	left     Quantity      // not supported, and asked for no more
	told     Quantity      // of left, the quantities that were logged
	asked    [16]time.Time // by the place of a quantity: when it was last asked for
	answered [16]time.Time // and last answered
	failures int           // sweeps without an answer since the last with one
	blackout time.Duration // the length of the latest; 0 since the device is back
	until    time.Time     // the end of the blackout
	cause    error         // of the blackout
	alarms   alarms
}

// published is a sample that others see. It does not change.
type published struct {
	sample  Sample
	number  uint64      // even: the one above is for the sample when it has expired
	expired atomic.Bool // it was seen to be too old, and counted
}

// read is Latest for one device.
func (w *watched) read() (Sample, uint64) {
	p := w.latest.Load()
	if p == nil {
		return Sample{}, 0
	}
	if !w.sampler.isOld(p.sample.Age()) {
		return p.sample, p.number
	}
	if p.expired.CompareAndSwap(false, true) {
		w.expired.Add(1)
	}
	return Sample{At: p.sample.At, Lost: p.sample.Lost, Expired: true}, p.number + 1
}

func (w *watched) publish(s *Sample) {
	w.number += 2
	w.latest.Store(&published{sample: *s, number: w.number})
}

// sweep asks for everything that is due, unless the device is left alone, and publishes the values known then.
func (w *watched) sweep() {
	if time.Now().Before(w.until) {
		return
	}
	var (
		failed error
		heard  bool
	)
	for q := Quantity(1); q <= AllQuantities; q <<= 1 {
		if !w.isDue(q) {
			continue
		}
		err := w.ask(q)
		if errors.Is(err, ErrLost) {
			w.lose(err)
			return
		}
		switch {
		case err == nil:
			heard = heard || w.tells(q)
		case !errors.Is(err, ErrNotSupported):
			failed = err
		}
	}
	w.tellLeft()
	switch {
	case heard:
		w.recover()
		w.forget()
		w.publish(&w.next)
		w.tellAlarms()
	case failed != nil:
		w.failures++
		if w.failures >= patience {
			w.leaveAlone(failed)
		}
	}
}

// isDue reports whether a quantity is to be asked for. A tick that comes a little early will do.
func (w *watched) isDue(q Quantity) bool {
	early := w.sampler.interval / 2
	return w.left&q == 0 && time.Since(w.asked[q.place()]) >= w.sampler.every(q)-early
}

// ask reads one quantity.
func (w *watched) ask(q Quantity) error {
	w.asked[q.place()] = time.Now()
	err := w.sampler.source.Read(w.index, q, &w.next)
	switch {
	case err == nil:
		now := time.Now()
		w.answered[q.place()] = now
		if w.tells(q) {
			w.next.At = now
		}
	case errors.Is(err, ErrLost):
	case errors.Is(err, ErrNotSupported):
		w.left |= q
		w.next.Set(q, &Sample{})
		w.notSupported.Add(1)
	default:
		w.failed.Add(1)
	}
	return err
}

// tells reports whether an answer about q says that the device can be read. An answer without a value does not, and a
// count of errors does not either: they are counted as they come.
func (w *watched) tells(q Quantity) bool { return q != XIDs && w.next.Has(q) }

// tellLeft logs the quantities that the device does not report, once.
func (w *watched) tellLeft() {
	if w.left != w.told {
		w.sampler.log.Info("GPU metrics missing", "event", "gpu_metrics_missing", "device", w.Name,
			"missing", (w.left &^ w.told).String())
		w.told = w.left
	}
}

// forget drops values that could not be read for too long.
func (w *watched) forget() {
	for q := Quantity(1); q <= AllQuantities; q <<= 1 {
		if w.next.Has(q) && w.sampler.isOld(time.Since(w.answered[q.place()])-w.sampler.every(q)) {
			w.next.Set(q, &Sample{})
			w.expired.Add(1)
		}
	}
}

// lose marks the device as gone.
func (w *watched) lose(err error) {
	known := w.next.Lost
	w.next = Sample{At: time.Now(), Lost: true}
	w.publish(&w.next)
	w.leaveAlone(err)
	if known {
		return
	}
	w.lost.Add(1)
	if w.sampler.onLost != nil {
		w.sampler.onLost(w.Device, err)
	}
}

// leaveAlone asks nothing of the device for a while, each time longer. Its sample expires in that time.
func (w *watched) leaveAlone(err error) {
	if w.blackout == 0 {
		w.sampler.log.Warn("GPU state unreadable", "event", "gpu_read_failed", "device", w.Name,
			"effect", "taken to be in its normal state, and asked ever less often", "cause", err)
	}
	w.blackout = min(max(2*w.blackout, firstBlackout), lastBlackout)
	w.until = time.Now().Add(w.blackout)
	w.cause = err
	w.failures = patience - 1 // so that the next failure is enough
	w.asked = [16]time.Time{}
	w.blackouts.Add(1)
}

// recover notes that the device answers. It is back if it has for a while.
func (w *watched) recover() {
	w.failures, w.next.Lost = 0, false
	if w.blackout > 0 && time.Since(w.until) >= steady {
		w.sampler.log.Info("GPU state readable for a minute", "event", "gpu_read_recovered", "device", w.Name)
		w.blackout, w.cause = 0, nil
	}
}

// readMemory answers ReadMemory.
func (w *watched) readMemory() memoryReply {
	switch {
	case w.left&Memory != 0:
		return memoryReply{err: ErrNotSupported}
	case time.Now().Before(w.until):
		return memoryReply{err: fmt.Errorf("the GPU is left alone after failing: %w", w.cause)}
	}
	err := w.ask(Memory)
	switch {
	case errors.Is(err, ErrLost):
		w.lose(err)
	case err == nil && w.number > 0:
		w.publish(&w.next)
	}
	if err == nil && !w.next.Has(Memory) {
		err = errors.New("the driver did not tell")
	}
	return memoryReply{total: w.next.MemoryTotal, free: w.next.MemoryFree, err: err}
}
