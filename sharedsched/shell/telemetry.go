package shell

import (
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// scarce is the factor from which on executions count as waiting for a processor.
const scarce = 1.1

// Scarce reports whether executions of the latest second took a tenth longer, or more, because they waited for a
// processor that others used.
func (s *Scheduler) Scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Waits(s.nowLocked(s.now())) >= scarce
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
