package sharedsched

import "time"

// Lanes that share a device's time (Device.Handover) are there so that the device never waits for a batch, not so that
// it computes two at once. Side by side, two batches of equal cost end when the second would have ended alone: the
// first is late for nothing, both together hold the device for twice the device cap, and the second was formed a batch
// too early. So the next batch is started when those in flight are about to end: early enough for the steps before
// computing, such as copies, and for estimates that are a little wrong.

// shared reports whether batches in flight on the device slow each other.
func (d *device) shared() bool { return d.Handover > 0 && d.Lanes > 1 }

// parallel returns how many batches the device does in the time of one: a divisor for the time that work takes on it.
func (d *device) parallel() time.Duration {
	if d.shared() {
		return 1
	}
	return time.Duration(d.Lanes)
}

// freeAt returns when the batches in flight on a device whose lanes share its time are expected to have ended; now if
// there are none, if their costs are unknown, or if lanes do not share it.
func (d *device) freeAt(now Time) Time {
	if !d.shared() || d.inFlight == 0 {
		return now
	}
	passed := now.Sub(d.since) / time.Duration(d.inFlight)
	left := time.Duration(0)
	for _, l := range d.lanes {
		if !l.running {
			continue
		}
		if !l.est.Known() {
			return now // unknown, and a guess must refuse nothing
		}
		left += max(0, l.est.Cost-l.share-passed)
	}
	return now.Add(left)
}

// setTurn follows a change of the set in flight: it sets when the next batch may be started while that set runs.
// Batches of unknown cost hold nothing back.
func (d *device) setTurn(now Time) {
	d.turn = 0
	if !d.shared() || d.inFlight == 0 {
		return
	}
	end, lead, due := d.freeAt(now), d.Handover, Never
	for _, l := range d.lanes {
		if l.running {
			if !l.est.Known() {
				return
			}
			lead = max(lead, l.est.Cost/handoverPart)
			due = min(due, l.due)
		}
	}
	d.turn = end - Time(lead)
	if end <= due && due < end.Add(lead)+delivery {
		d.turn = due // it would be late for the sake of the next
	}
}
