package synth

import "time"

// Device executes one run at a time, in the order in which they came. Models that share one compete for it.
type Device struct {
	busy chan struct{} // holds one value while a run has the device; its waiters are served in order
}

// NewDevice returns an idle device.
func NewDevice() *Device { return &Device{busy: make(chan struct{}, 1)} }

// occupy waits for the device, holds it for as long as duration says, and reports true; or false as soon as stop closes.
// Duration is called while the device is held. The wait is a timer's: on real time up to about a millisecond longer than
// asked for, and exact in a testing/synctest bubble.
func (d *Device) occupy(stop <-chan struct{}, duration func() time.Duration) bool {
	select {
	case <-stop: // select would choose either if the device is idle as well
		return false
	default:
	}
	select {
	case <-stop:
		return false
	case d.busy <- struct{}{}:
	}
	defer func() { <-d.busy }()
	timer := time.NewTimer(duration())
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}
