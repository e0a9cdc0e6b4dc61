package ort

import "time"

// seize shuts everybody else out of the CUDA devices for a capture, until end is called. It returns nil if it cannot
// until a time.
func seize(until time.Time) (end func()) {
	if !device.opening.shut(time.Until(until)) {
		return nil
	}
	if !device.running.shut(time.Until(until)) {
		device.opening.open()
		return nil
	}
	return func() {
		device.running.open()
		device.opening.open()
	}
}
