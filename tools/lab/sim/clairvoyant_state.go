package sim

import (
	"cmp"
	"slices"
)

// beamState is how far a sequence of batches has come.
type beamState struct {
	free   Time    // when the device is
	onTime int     // requests
	pos    []int32 // by line: the first request that is neither served nor dropped
	hash   uint64  // of pos

	// The findings of beam.judge.
	score   float64
	next    foreBatch // started next by the rule; its cost is 0 if none is
	perfect bool      // the rule loses nothing more up to the horizon
}

// after makes s the state after a batch.
func (s *beamState) after(o *foreBatch) *beamState {
	s.hash ^= mixed(o.line, s.pos[o.line]) ^ mixed(o.line, o.after)
	s.pos[o.line] = o.after
	s.free = o.start + o.cost
	s.onTime += int(o.onTime)
	return s
}

// until makes s the state after waiting.
func (s *beamState) until(at Time) *beamState {
	s.free = at
	return s
}

// distinct removes states that have served as far as another one which has more on time, or as many, and is free no
// later.
func distinct(states []*beamState) []*beamState {
	slices.SortFunc(states, func(x, y *beamState) int {
		if c := cmp.Compare(x.hash, y.hash); c != 0 {
			return c
		}
		if c := cmp.Compare(y.onTime, x.onTime); c != 0 {
			return c
		}
		return cmp.Compare(x.free, y.free)
	})
	kept := states[:0]
	for _, s := range states {
		if n := len(kept); n == 0 || kept[n-1].hash != s.hash || kept[n-1].free > s.free {
			kept = append(kept, s)
		}
	}
	return kept
}

// mixed hashes a line's position.
func mixed(line, pos int32) uint64 {
	x := (uint64(line)<<32 | uint64(pos)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}
