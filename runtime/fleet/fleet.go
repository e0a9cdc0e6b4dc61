// Package fleet knows the devices that models are on, or may be: their load, their free memory, which are lost, and
// which one the next version goes to; and the budget of memory that all versions share.
package fleet

import (
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Fleet is all devices. It is safe for concurrent use; the lock mu is a leaf.
type Fleet struct {
	lanes map[string]int
	free  func(device string) (bytes int64, known bool) // may be nil

	placing sync.Mutex // held while a device is chosen, so that the next choice sees this one

	mu  sync.Mutex
	all []*Device // guarded by mu; the latest incarnation of each, in the order in which they came to be known
}

// New returns a fleet in which a device has so many lanes, by name, or one. free returns how many bytes of a device's
// memory are free, if that is known; it may take its time, and may be nil.
func New(lanes map[string]int, free func(device string) (bytes int64, known bool)) *Fleet {
	return &Fleet{lanes: lanes, free: free}
}

// Get returns the latest incarnation of the named device.
func (f *Fleet) Get(name string) *Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.getLocked(name)
}

// getLocked makes a device when its name is first heard, so that callers need not know all. The caller holds mu.
func (f *Fleet) getLocked(name string) *Device {
	for _, d := range f.all {
		if d.Name == name {
			return d
		}
	}
	d := f.newDevice(name, 0)
	f.all = append(f.all, d)
	return d
}

// newDevice makes an incarnation of a device. A device that is not named in lanes has one.
func (f *Fleet) newDevice(name string, incarnation int) *Device {
	return &Device{
		Name: name, Incarnation: incarnation, Lanes: max(f.lanes[name], 1), left: make(chan struct{}),
		known: make(chan struct{}),
	}
}

// Restore returns a new incarnation of a device that was lost, or nil if that is not so.
func (f *Fleet) Restore(name string) *Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, d := range f.all {
		if d.Name == name && d.Lost() != nil {
			f.all[i] = f.newDevice(name, d.Incarnation+1)
			return f.all[i]
		}
	}
	return nil
}

// Lost returns the devices that failed and did not come back.
func (f *Fleet) Lost() (all []catalog.LostDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.all {
		if cause := d.Lost(); cause != nil {
			all = append(all, catalog.LostDevice{Name: d.Name, Cause: catalog.Public(cause)})
		}
	}
	return all
}

// loadMemory is the time constant of the average of a device's load: one second of load counts as an eighth. Less would
// move versions because of bursts, more would react late.
const loadMemory = 8 * time.Second

// Tick takes the device time that was asked for since the latest tick into the averages. passed is that time.
func (f *Fleet) Tick(passed time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	weight := min(1, float64(passed)/float64(loadMemory))
	for _, d := range f.all {
		share := float64(d.Asked.Swap(0)) / float64(passed)
		d.load += weight * (share - d.load)
	}
}

// Load returns how much of a device's time was asked for lately, see placement.Device.
func (f *Fleet) Load(d *Device) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return d.load
}

// Forget drops what was asked for until now. Without it the first tick would take the work since the start for that of
// one second.
func (f *Fleet) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.all {
		d.Asked.Store(0)
	}
}

// Count notes that a session was opened on a device (1), or closed (-1).
func (f *Fleet) Count(d *Device, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.versions += by
}

// Spare returns how much of its time the least loaded of the devices has left, from 0 to 1, and whether any of them
// works.
func (f *Fleet) Spare(names []string) (most float64, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if d := f.getLocked(name); d.Lost() == nil {
			most, is = max(most, 1-d.load), true
		}
	}
	return most, is
}
