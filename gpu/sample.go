package gpu

import "time"

// Sample holds the known values of a GPU at one moment. A value that is not Known is zero.
type Sample struct {
	At    time.Time // when the youngest of the values was read
	Known Quantity

	Clock, MaxClock int // of the multiprocessors, now and at most, in MHz
	Reasons         Reasons
	Utilisation     int // part of the time in which anything ran, of any process, in per mille
	// CoTenant is the share of the multiprocessors that other processes use, in per mille.
	CoTenant int
	// MemoryTotal, MemoryUsed and MemoryFree are in bytes. Memory that the driver keeps for itself is in neither used
	// nor free; with an old driver, which does not list it apart, it is in used.
	MemoryTotal, MemoryUsed, MemoryFree int64
	Power, PowerLimit                   float64 // in W
	Temperature                         int     // in °C
	// memory errors that could not be corrected, since the driver was loaded
	ECC int64
	// XIDs counts the errors that the driver reported of the device since the program began to listen, whatever their
	// cause; LastXID is the number of the latest, which the driver's documentation explains.
	XIDs    int64
	LastXID int

	Lost bool // the device was gone when it was last asked; nothing else is known then
	// there is no recent sample: only the time of the last one is known, and whether the device was lost
	Expired bool
}

// Has reports whether every quantity of the set is known.
func (s *Sample) Has(set Quantity) bool { return s.Known&set == set }

// Idle reports whether nothing was running, so that the clock means nothing. Where the driver gives no reasons, it goes
// by the utilisation.
func (s *Sample) Idle() bool {
	if s.Has(EventReasons) {
		return s.Reasons&GPUIdle != 0
	}
	return s.Has(Utilisation) && s.Utilisation == 0
}

// Age returns the time since At.
func (s *Sample) Age() time.Duration { return time.Since(s.At) }

// Set makes the values of the set those of from, whether known or not. A Source that keeps samples answers with it.
func (s *Sample) Set(set Quantity, from *Sample) {
	for q := Quantity(1); q <= AllQuantities; q <<= 1 {
		if set&q == 0 {
			continue
		}
		switch q {
		case Clock:
			s.Clock = from.Clock
		case EventReasons:
			s.Reasons = from.Reasons
		case Utilisation:
			s.Utilisation = from.Utilisation
		case Memory:
			s.MemoryTotal, s.MemoryUsed, s.MemoryFree = from.MemoryTotal, from.MemoryUsed, from.MemoryFree
		case MaxClock:
			s.MaxClock = from.MaxClock
		case Power:
			s.Power = from.Power
		case PowerLimit:
			s.PowerLimit = from.PowerLimit
		case Temperature:
			s.Temperature = from.Temperature
		case ECC:
			s.ECC = from.ECC
		case XIDs:
			s.XIDs, s.LastXID = from.XIDs, from.LastXID
		case CoTenants:
			s.CoTenant = from.CoTenant
		default: // sets of several do not come here
		}
	}
	s.Known = s.Known&^set | from.Known&set
}
