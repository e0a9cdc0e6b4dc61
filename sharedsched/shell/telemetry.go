package shell

import (
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// sample is what telemetry said of a device, with its number; 0: nothing.
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

// observeLocked tells Core of a sample of the device, unless it knows that one, or a newer one that another lane
// brought. Of a device that was removed nothing is told: another one may have its name by now.
func (s *Scheduler) observeLocked(now sharedsched.Time, c *crew, said sample) {
	if said.number > c.sample && !c.removed {
		c.sample = said.number
		ev := sharedsched.Event{Kind: sharedsched.EventObserve, Device: c.device.Name, Sample: &said.Sample}
		_ = s.stepLocked(now, &ev, &sharedsched.Answer{}) // it has no error
	}
}
