package shell

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftserve/weft/sharedsched"
)

// crew holds the batch threads of one device.
type crew struct {
	device  sharedsched.Device
	threads []*batchThread
	ended   chan struct{} // closed when the last thread has ended

	// The rest is guarded by Scheduler.mu.
	left    int    // threads that have not ended
	removed bool   // the device was removed: they end
	sample  uint64 // number of the telemetry sample that Core knows
}

// enlistLocked starts the batch threads of a device.
func (s *Scheduler) enlistLocked(d sharedsched.Device, first sharedsched.LaneID) {
	c := &crew{device: d, ended: make(chan struct{}), left: d.Lanes}
	for i := range d.Lanes {
		lane := first + sharedsched.LaneID(i)
		c.threads = append(c.threads, &batchThread{lane: lane, crew: c, wake: make(chan struct{}, 1)})
	}
	s.crews = append(s.crews, c)
	for _, t := range c.threads {
		go func() {
			s.run(t)
			s.leave(c)
		}()
	}
}

// leave follows the end of a batch thread.
func (s *Scheduler) leave(c *crew) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.ended)
	}
}

// wakeAll wakes the threads so that they check whether they must end.
func (c *crew) wakeAll() {
	for _, t := range c.threads {
		signal(t.wake)
	}
}

// AddDevice adds a device, and starts a batch thread for each of its lanes. The errors are those of EventAddDevice, and
// ErrClosed.
func (s *Scheduler) AddDevice(d sharedsched.Device) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sharedsched.ErrClosed
	}
	var out sharedsched.Answer
	ev := sharedsched.Event{Kind: sharedsched.EventAddDevice, Added: &d}
	if err := s.stepLocked(s.nowLocked(s.now()), &ev, &out); err != nil {
		return err
	}
	s.enlistLocked(d, out.Lane)
	return nil
}

// RenewDevice removes a device and adds it again at once: the lanes, flows, versions and costs of the old one are left
// behind. The error is that there is no such device, or ErrClosed.
func (s *Scheduler) RenewDevice(name string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.crews, func(c *crew) bool { return c.device.Name == name })
	var d sharedsched.Device
	if i >= 0 {
		d = s.crews[i].device
	}
	s.mu.Unlock()
	now, cancel := context.WithCancel(context.Background())
	cancel() // running batches are not waited for
	if err := s.RemoveDevice(now, name); i < 0 {
		return err
	}
	return s.AddDevice(d)
}

// RemoveDevice takes a device out, such as one that was lost: tasks that wait for it end with ErrRemoved, and so do
// later tasks of its versions. It returns when the batches in flight there have ended, or with the context's error; a
// lane that hangs is left behind then, and its callers with it, but no other caller waits for it. The device may be
// added again at once, as another one. The error is otherwise that there is no such device. Its flows still have to be
// removed.
func (s *Scheduler) RemoveDevice(ctx context.Context, name string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.crews, func(c *crew) bool { return c.device.Name == name })
	if i < 0 {
		s.mu.Unlock()
		return fmt.Errorf("sharedsched: there is no device %q to remove", name)
	}
	c := s.crews[i]
	c.removed = true
	s.crews = slices.Delete(s.crews, i, i+1)
	for _, t := range c.threads {
		s.setIdleLocked(t, false) // they are not woken for work any more
	}
	c.wakeAll()
	var sc scratch
	now := s.nowLocked(s.now())
	err := s.stepLocked(now, &sharedsched.Event{Kind: sharedsched.EventRemoveDevice, Device: name}, &sc.Answer)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
	if err != nil {
		return err
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
