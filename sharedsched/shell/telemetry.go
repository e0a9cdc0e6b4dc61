package shell

import (
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// Waits returns by how much executions of the latest second took longer because they waited for a processor that others
// used, on the device where that is most: 1 if they did not.
func (s *Scheduler) Waits() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Waits(s.nowLocked(s.now()))
}

// sample is telemetry's latest sample of a device, with its number; 0: none.
type sample struct {
	cost.Sample
	number uint64
}

// sample asks telemetry about a device.
func (s *Scheduler) sample(device string) sample {
	if s.tele == nil {
		return sample{}
	}
	said, number := s.tele.Sample(device)
	return sample{said, number}
}

// observeLocked passes a sample of the device to Core, unless Core knows that one, or a newer one that another lane
// brought. Samples of a removed device are left out: another device may have its name by now.
func (s *Scheduler) observeLocked(now sharedsched.Time, c *crew, said sample) {
	if said.number > c.sample && !c.removed {
		c.sample = said.number
		ev := sharedsched.Event{Kind: sharedsched.EventObserve, Device: c.device.Name, Sample: &said.Sample}
		_ = s.stepLocked(now, &ev, &sharedsched.Answer{}) // it has no error
	}
}
