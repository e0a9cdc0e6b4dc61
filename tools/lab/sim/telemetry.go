package sim

import (
	"cmp"
	"math"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
)

// Telemetry says how often a policy learns the state of the device. The zero value: never.
type Telemetry struct {
	Every            time.Duration // the clock, and whether the device was idle
	CoTenant, Memory time.Duration // the share and the memory that others use, multiples of Every; 0 counts as it
}

// observer is a Policy that takes samples of telemetry.
type observer interface {
	Observe(now Time, s cost.Sample)
}

// sampler takes samples, from a random time on, so that changes of the device come anywhere between two.
type sampler struct {
	Telemetry
	observer observer
	total    int64         // memory, in bytes
	at       Time          // of the next sample
	turn     int           // counts samples
	busy     time.Duration // of the device when the last one was taken
	latest   cost.Sample
}

// referenceClock is in MHz.
const referenceClock = 1500

// newSampler panics if the policy is not an observer: a run of it with telemetry would mean nothing.
func newSampler(s *Setup, p Policy) *sampler {
	phase := stream(s.Seed, math.MaxUint32)
	return &sampler{
		Telemetry: s.Telemetry, observer: p.(observer), total: s.Device.Memory,
		at:   Time(phase.Int64N(int64(s.Telemetry.Every))),
		turn: phase.IntN(1 << 20), latest: cost.Sample{MaxClock: referenceClock},
	}
}

func (s *sampler) sample(e *engine) {
	now := &e.now
	s.latest.Clock = int(referenceClock * cmp.Or(now.Clock, 1))
	s.latest.Idle = e.lanes.inFlight == 0 && e.result.Busy == s.busy // nothing ran since the last one
	s.busy = e.result.Busy
	if s.due(s.CoTenant) {
		s.latest.CoTenant = int(math.Round(1000 * now.CoTenant))
	}
	if s.total > 0 && s.due(s.Memory) {
		s.latest.MemoryFree, s.latest.MemoryTotal = e.memory.free(now), s.total
	}
	s.observer.Observe(s.at, s.latest)
	s.turn++
	s.at = s.at.Add(s.Every)
}

func (s *sampler) due(every time.Duration) bool { return s.turn%max(1, int(every/s.Every)) == 0 }
