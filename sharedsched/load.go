package sharedsched

import "time"

// DeviceLoad says how much a device has to do.
type DeviceLoad struct {
	Name string
	// Busy is the time that it has worked, ever: with several lanes of their own, the mean over these.
	Busy time.Duration
	// Work is how long it is expected to take for the foreground tasks that wait.
	Work time.Duration
	// Full is what the largest full batch is expected to take, of the queues that batches were started of lately; 0: it
	// is not known of any.
	Full time.Duration
}

// Load returns how much the devices that have a version have to do, in the order in which they were added. A device
// without one would only make the others look idle. It looks at no queue, and may be asked often.
func (c *Core) Load(now Time) []DeviceLoad {
	var loads []DeviceLoad
	for _, d := range c.devices {
		if !c.serves(d) {
			continue
		}
		loads = append(loads, DeviceLoad{
			Name: d.Name, Busy: d.busyAt(now) / d.parallel(), Work: d.work / d.parallel(), Full: d.full.at(now),
		})
	}
	return loads
}

// serves reports whether the device has a version that takes tasks.
func (c *Core) serves(d *device) bool {
	for _, v := range c.versions {
		if v != nil && v.flow.device == d && !v.closing {
			return true
		}
	}
	return false
}

// busyAt returns device.busy as it is now, with what the batches in flight have added since the last change.
func (d *device) busyAt(now Time) time.Duration {
	running := d.inFlight
	if d.shared() {
		running = min(running, 1)
	}
	return d.busy + now.Sub(d.since)*time.Duration(running)
}

// largest is the largest of the values that were noted lately: for one to two times largestFor.
type largest struct {
	began       Time // of the present period
	now, before time.Duration
}

// note notes a value.
func (l *largest) note(now Time, value time.Duration) {
	if passed := now.Sub(l.began); passed >= largestFor {
		l.before, l.now = l.now, 0
		if passed >= 2*largestFor {
			l.before = 0
		}
		l.began = now
	}
	l.now = max(l.now, value)
}

// at returns the largest value as of a time.
func (l *largest) at(now Time) time.Duration {
	switch passed := now.Sub(l.began); {
	case passed >= 2*largestFor:
		return 0
	case passed >= largestFor:
		return l.now
	}
	return max(l.now, l.before)
}
