package sharedsched

import "github.com/weftserve/weft/sharedsched/cost"

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

// observeLocked tells Core of a sample of the lane's device, unless it knows that one, or a newer one that another lane brought.
func (s *Scheduler) observeLocked(now Time, id LaneID, said sample) {
	device := s.core.lanes[id].device
	if said.number > s.samples[device] {
		s.samples[device] = said.number
		name := s.core.devices[device].Name
		_ = s.stepLocked(now, &Event{Kind: EventObserve, Device: name, Sample: &said.Sample}, &Answer{}) // it has no error
	}
}
