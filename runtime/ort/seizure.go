package ort

import (
	"sync"
	"time"
)

// seizure is a capture's hold on the CUDA devices while it has shut out everybody else.
type seizure struct {
	on  int // the device that it captures on
	end func()
}

// seize shuts the gates for a capture on a device, or returns nil if it cannot until a time, or the device is lost.
func seize(on int, until time.Time) *seizure {
	if !device.opening.shut(time.Until(until)) {
		return nil
	}
	if !device.running.shut(time.Until(until)) {
		device.opening.open()
		return nil
	}
	// Once: a capture that hung may end after its device was lost, when the gates may be another's.
	s := &seizure{on, sync.OnceFunc(func() {
		device.seized.Store(nil)
		device.running.open()
		device.opening.open()
	})}
	device.seized.Store(s)
	if lostBy(on) != nil { // it may have been lost before there was a seizure to end
		s.end()
		return nil
	}
	return s
}

// endSeizure lets everybody in again whom a capture on a device that is lost keeps out: it may hang there for ever.
func endSeizure(lost int) {
	if s := device.seized.Load(); s != nil && s.on == lost {
		s.end()
	}
}
