package shadow

import "math"

// The bins of a Spread are of even width on a logarithmic scale, between these relative differences.
const (
	Bins       = 64
	SpreadFrom = 1e-9
	SpreadTo   = 10.0
)

// Spread counts relative differences by their size.
type Spread struct {
	Equal int64       // no element differs
	Below int64       // some do, by less than SpreadFrom
	Bins  [Bins]int64 // Bins[i] from SpreadFrom·(SpreadTo/SpreadFrom)^(i/Bins) on
	Above int64       // by SpreadTo or more, or infinitely
}

func (s *Spread) add(relative float64) {
	switch {
	case relative == 0:
		s.Equal++
	case relative < SpreadFrom:
		s.Below++
	case !(relative < SpreadTo):
		s.Above++
	default:
		decades := math.Log10(relative / SpreadFrom)
		s.Bins[min(Bins-1, max(0, int(Bins*decades/math.Log10(SpreadTo/SpreadFrom))))]++
	}
}
