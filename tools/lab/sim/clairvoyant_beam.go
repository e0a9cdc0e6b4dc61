package sim

import (
	"cmp"
	"slices"
	"sort"
)

// beam searches for the best sequence of batches. Time is divided into stretches; of the states whose device gets free
// within a stretch the best are kept, and each of these is followed by several batches, and by waiting. How good a
// state is, is found by letting the best simple rule go on from it to a horizon that is the same for all states of the
// stretch. Where the rule loses nothing more up to the horizon, it is followed without looking at anything else.
type beam struct {
	f       *foresight
	player  *player
	width   int
	stretch Time           // as long as a few batches
	horizon Time           // beyond the stretch
	states  [][]*beamState // by stretch
	arrived []int32        // by line: how many requests have when the current stretch begins
	options []foreBatch    // of the state that is followed
	most    float64
}

const (
	// beamStretch is how many batches a stretch lasts on average. Shorter is slower and hardly better.
	beamStretch = 2
	// beamHorizon is in mean times from arrival to deadline. Half of it is as good in overload and worse where little
	// is lost.
	beamHorizon = 2
	// beamPlayed is how many batches the rule plays at most on average: it is the cost of judging a state.
	beamPlayed = 100
	// beamAlive is the worth of a request that still waits at the horizon.
	beamAlive = 0.8
)

// newBeam prepares a search for which there are requests.
func newBeam(f *foresight, rule foreRule, width int) *beam {
	b := &beam{f: f, player: newPlayer(f, rule), width: width, arrived: make([]int32, len(f.lines))}
	most, batches, _ := b.player.play(-1, Never)
	b.most = most
	batch := float64(f.end) / float64(max(batches, 1))
	b.stretch = max(f.shortest, Time(beamStretch*batch))
	patience := 0.0
	for i := range f.lines {
		l := &f.lines[i]
		for j := range l.arrival {
			patience += float64(l.deadline[j]-l.arrival[j]) / float64(len(f.arrivals))
		}
	}
	b.horizon = Time(min(beamHorizon*patience, beamPlayed*batch))
	b.states = make([][]*beamState, f.end/b.stretch+2)
	return b
}

// run returns how many requests are on time in the best sequence found.
func (b *beam) run() int {
	b.add(fresh(&beamState{free: b.f.arrivals[0].at, pos: make([]int32, len(b.f.lines))}))
	for k := range b.states {
		b.step(k)
	}
	return int(b.most + 1e-6)
}

// step follows the best states of a stretch. Short batches and waiting add states to it meanwhile, which come next.
func (b *beam) step(k int) {
	start := Time(k) * b.stretch
	for i := range b.arrived {
		b.arrived[i] = int32(b.f.lines[i].arrived(start, int(b.arrived[i])))
	}
	bar := 0.0
	for left := 2 * b.width; len(b.states[k]) > 0; {
		states := distinct(b.states[k])
		b.states[k] = nil
		for _, s := range states {
			b.judge(s, start+b.stretch+b.horizon)
		}
		slices.SortStableFunc(states, func(x, y *beamState) int { return cmp.Compare(y.score, x.score) })
		room := min(b.width, max(left, b.width/8+1))
		left -= room
		if states[0].perfect {
			room = 1
		}
		higher := bar
		if room <= len(states) {
			higher = max(bar, states[room-1].score)
		}
		for i, s := range states {
			if i == 0 || i < room && s.score >= bar {
				b.follow(s)
			}
		}
		bar = higher
	}
}

// judge gives s its score.
func (b *beam) judge(s *beamState, until Time) {
	p := b.player
	lost := -s.onTime
	for i := range p.end {
		p.end[i] = int32(b.f.lines[i].arrived(s.free, int(b.arrived[i])))
		p.pos[i] = s.pos[i]
		lost += int(s.pos[i])
	}
	var more float64
	more, _, s.next = p.play(s.free, until)
	alive, arrived := p.waiting(until)
	s.score = float64(s.onTime) + more + beamAlive*float64(alive)
	s.perfect = float64(s.onTime)+more > float64(arrived-alive-lost)-1
	if until >= b.f.end {
		b.most = max(b.most, float64(s.onTime)+more)
	}
}

// follow adds the states that follow s: by the batch that the rule would start; by those that have to start first, are
// due first, and answer most requests per time; and by waiting for a request that the rule's batch would make late.
func (b *beam) follow(s *beamState) {
	arrivals := b.f.arrivals
	next := sort.Search(len(arrivals), func(i int) bool { return arrivals[i].at > s.free })
	if s.next.cost == 0 { // nothing waits
		if next < len(arrivals) {
			b.add(fresh(s).until(arrivals[next].at))
		}
		return
	}
	b.add(fresh(s).after(&s.next))
	if s.perfect {
		return
	}
	b.options = b.options[:0]
	for i := range b.f.lines {
		l := &b.f.lines[i]
		n := l.arrived(s.free, int(b.arrived[i]))
		if pos := l.skipHopeless(s.free, int(s.pos[i]), n); pos < n {
			if o := b.f.form(s.free, i, pos, n, true, Never); o != s.next {
				b.options = append(b.options, o)
			}
		}
	}
	b.followBest(s, func(x, y *foreBatch) bool { return x.due-x.cost < y.due-y.cost })
	b.followBest(s, func(x, y *foreBatch) bool { return x.due < y.due })
	b.followBest(s, func(x, y *foreBatch) bool { return int64(x.onTime)*int64(y.cost) > int64(y.onTime)*int64(x.cost) })

	end := s.next.start + s.next.cost
	for i := next; i < len(arrivals) && arrivals[i].at < end; i++ {
		if arrivals[i].latest < end {
			b.add(fresh(s).until(arrivals[i].at))
			return
		}
	}
}

// followBest takes the best out of the options.
func (b *beam) followBest(s *beamState, better func(x, y *foreBatch) bool) {
	if len(b.options) == 0 {
		return
	}
	best := 0
	for i := range b.options {
		if better(&b.options[i], &b.options[best]) {
			best = i
		}
	}
	b.add(fresh(s).after(&b.options[best]))
	last := len(b.options) - 1
	b.options[best] = b.options[last]
	b.options = b.options[:last]
}

func (b *beam) add(s *beamState) {
	b.most = max(b.most, float64(s.onTime))
	if k := int(s.free / b.stretch); k < len(b.states) {
		b.states[k] = append(b.states[k], s)
	}
}

// fresh returns a copy of s.
func fresh(s *beamState) *beamState {
	return &beamState{free: s.free, onTime: s.onTime, hash: s.hash, pos: slices.Clone(s.pos)}
}
