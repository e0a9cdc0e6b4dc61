package sim

import (
	"cmp"
	"os"
	"slices"
	"strconv"
)

func knob(name string, d float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return v
	}
	return d
}

var (
	kV              = knob("KV", 0.8)
	kH              = knob("KH", 1)
	kLST            = int(knob("KLST", 1))
	kEDF            = int(knob("KEDF", 1))
	kDEN            = int(knob("KDEN", 1))
	kSHORT = int(knob("KSHORT", 1))
	kSTR            = knob("KSTR", 1)
	nJudged, nSteps int
)

// beam searches for the best sequence of batches. A state is when the device is free again and how far each line is served. Time
// is divided into stretches as long as a batch takes on average; of the states whose device gets free within a stretch the best
// are kept, and each of those is continued by several batches, and by waiting. How good a state is, is found by letting a simple
// rule go on from it to a horizon which is the same for all states of the stretch.
type beam struct {
	f       *foresight
	player  *player
	width   int
	stretch Time
	horizon Time // beyond the stretch
	states  [][]*beamState
	snap    []int32 // by line: how many have arrived when the current stretch begins
	spare   []*beamState
	options []foreBatch
	most    float64
}

type beamState struct {
	free    Time // from when on the device is
	onTime  int
	hash    uint64  // of pos
	pos     []int32 // by line: the first request that is neither served nor dropped
	score   float64
	next    foreBatch // what the rule does next, if its cost is not 0
	perfect bool // the rule loses nothing up to the horizon
}

func newBeam(f *foresight, rule foreRule, width int) *beam {
	b := &beam{f: f, player: newPlayer(f, rule), width: width, snap: make([]int32, len(f.lines))}
	if len(f.arrivals) == 0 {
		return b
	}
	var batches int
	b.most, batches, _ = b.player.play(0, Never)
	b.stretch = max(f.shortest, Time(kSTR*float64(f.end)/float64(max(batches, 1))))
	slos := 0.0
	for i := range f.lines {
		l := &f.lines[i]
		for j := range l.arrival {
			slos += float64(l.deadline[j] - l.arrival[j])
		}
	}
	b.horizon = Time(kH * slos / float64(len(f.arrivals)))
	b.states = make([][]*beamState, f.end/b.stretch+2)
	return b
}

// run returns how many requests are on time in the best sequence found.
func (b *beam) run() int {
	if len(b.states) == 0 {
		return 0
	}
	first := b.fresh()
	clear(first.pos)
	first.free, first.onTime, first.hash = b.f.arrivals[0].at, 0, 0
	b.add(first)
	for k := range b.states {
		b.step(k)
	}
	return int(b.most + 1e-6)
}

// step continues the best states of a stretch.
func (b *beam) step(k int) {
	start := Time(k) * b.stretch
	for i := range b.snap {
		b.snap[i] = int32(b.f.lines[i].arrived(start, int(b.snap[i])))
	}
	until := start + b.stretch + b.horizon
	bar := 0.0
	left := 2 * b.width
	for len(b.states[k]) > 0 { // Short batches add states to this stretch while it is worked on.
		states := b.distinct(b.states[k])
		b.states[k] = nil
		for _, s := range states {
			b.judge(s, until)
		}
		slices.SortStableFunc(states, func(x, y *beamState) int { return cmp.Compare(y.score, x.score) })
		nSteps++
		if states[0].perfect && states[0].score >= bar {
			bar = states[0].score
			b.spare = append(b.spare, states[1:]...)
			states = states[:1]
		}
		room := min(b.width, max(left, b.width/8+1))
		left -= room
		for i, s := range states {
			if i == 0 || i < room && s.score >= bar {
				b.continued(s)
				if i == b.width-1 {
					bar = max(bar, s.score)
				}
			}
			b.spare = append(b.spare, s)
		}
	}
}

// distinct removes states that are served as far as another one which is free no later.
func (b *beam) distinct(states []*beamState) []*beamState {
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
		if n := len(kept); n > 0 && kept[n-1].hash == s.hash && kept[n-1].free <= s.free {
			b.spare = append(b.spare, s)
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// judge gives s its score.
func (b *beam) judge(s *beamState, until Time) {
	nJudged++
	p := b.player
	lost := -s.onTime
	for i := range p.end {
		p.end[i] = int32(b.f.lines[i].arrived(s.free, int(b.snap[i])))
		p.pos[i] = s.pos[i]
		lost += int(s.pos[i])
	}
	more, _, first := p.play(s.free, until)
	s.next = first
	alive := p.alive(until)
	s.score = float64(s.onTime) + more + kV*float64(alive)
	s.perfect = float64(p.arrived()-alive-lost)-float64(s.onTime) <= more+1
	if until >= b.f.end {
		b.most = max(b.most, s.score)
	}
	b.most = max(b.most, float64(s.onTime))
}

func (b *beam) fresh() *beamState {
	if n := len(b.spare); n > 0 {
		s := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return s
	}
	return &beamState{pos: make([]int32, len(b.f.lines))}
}

func (b *beam) add(s *beamState) {
	k := int(s.free / b.stretch)
	if k >= len(b.states) {
		b.most = max(b.most, float64(s.onTime))
		b.spare = append(b.spare, s)
		return
	}
	b.states[k] = append(b.states[k], s)
}

// continued adds the states that follow s.
func (b *beam) continued(s *beamState) {
	next := b.nextArrival(s.free)
	if s.next.cost == 0 {
		b.wait(s, next)
		return
	}
	b.follow(s, s.next)
	if s.perfect {
		return
	}
	b.options = b.options[:0]
	for i := range b.f.lines {
		l := &b.f.lines[i]
		n := l.arrived(s.free, int(b.snap[i]))
		if pos := l.skipHopeless(s.free, int(s.pos[i]), n); pos < n {
			if o := b.f.form(s.free, i, pos, n, true, Never); o != s.next {
				b.options = append(b.options, o)
			}
		}
	}
	urgent := [2]foreBatch{{line: -1}, {line: -1}} // the two options that have to start first
	for _, o := range b.options {
		switch {
		case urgent[0].line < 0 || o.due-o.cost < urgent[0].due-urgent[0].cost:
			urgent[0], urgent[1] = o, urgent[0]
		case urgent[1].line < 0 || o.due-o.cost < urgent[1].due-urgent[1].cost:
			urgent[1] = o
		}
	}
	chosen := b.choose(s)
	for _, o := range append(chosen, s.next) {
		end := o.start + o.cost
		first := urgent[0]
		if first.line == o.line {
			first = urgent[1]
		}
		if first.line >= 0 {
			b.shorten(s, o, first.due-first.cost)
		}
		soonest, which := Never, -1
		for i := next; i < len(b.f.arrivals) && b.f.arrivals[i].at < end; i++ {
			if a := &b.f.arrivals[i]; a.line != o.line && a.latest < soonest {
				soonest, which = a.latest, i
			}
		}
		if soonest < end {
			b.shorten(s, o, soonest)
			if o == s.next {
				b.wait(s, which)
			}
		}
	}
}

// shorten follows s by as much of a batch as ends by a time.
func (b *beam) shorten(s *beamState, o foreBatch, end Time) {
	if end >= o.start+o.cost || kSHORT == 0 {
		return
	}
	l := &b.f.lines[o.line]
	rows := l.within(end-o.start, l.before[o.after]-l.before[o.first])
	if rows == 0 {
		return
	}
	count, cost := l.takes(int(o.first), int(o.after), rows)
	if o.start+cost > end {
		return
	}
	o.after, o.cost = o.first+int32(count), cost
	o.onTime = int32(l.onTime(int(o.first), int(o.after), o.start+cost))
	b.follow(s, o)
}

// wait follows s by idling until an arrival.
func (b *beam) wait(s *beamState, arrival int) {
	if arrival == len(b.f.arrivals) {
		return
	}
	w := b.fresh()
	copy(w.pos, s.pos)
	w.free, w.onTime, w.hash = b.f.arrivals[arrival].at, s.onTime, s.hash
	b.add(w)
}

func (b *beam) nextArrival(now Time) int {
	i, _ := slices.BinarySearchFunc(b.f.arrivals, now, func(a foreArrival, t Time) int {
		if a.at > t {
			return 1
		}
		return -1
	})
	return i
}

// choose continues s by the most promising of the options: those that have to start first, are due first, or answer most
// requests per time.
func (b *beam) choose(s *beamState) (chosen []foreBatch) {
	top := func(n int, less func(x, y *foreBatch) int) {
		for range min(n, len(b.options)) {
			best := 0
			for i := range b.options {
				if less(&b.options[i], &b.options[best]) < 0 {
					best = i
				}
			}
			o := b.options[best]
			last := len(b.options) - 1
			b.options[best] = b.options[last]
			b.options = b.options[:last]
			b.follow(s, o)
			chosen = append(chosen, o)
		}
	}
	top(kLST, func(x, y *foreBatch) int { return cmp.Compare(x.due-x.cost, y.due-y.cost) })
	top(kEDF, func(x, y *foreBatch) int { return cmp.Compare(x.due, y.due) })
	top(kDEN, func(x, y *foreBatch) int {
		return cmp.Compare(float64(y.onTime)*float64(x.cost), float64(x.onTime)*float64(y.cost))
	})
	return chosen
}

func (b *beam) follow(s *beamState, o foreBatch) {
	c := b.fresh()
	copy(c.pos, s.pos)
	c.hash = s.hash ^ mixed(o.line, c.pos[o.line]) ^ mixed(o.line, o.after)
	c.pos[o.line] = o.after
	c.free, c.onTime = o.start+o.cost, s.onTime+int(o.onTime)
	b.add(c)
}

// mixed hashes a line's position; that of 0 must be 0 for the first state, whose hash is 0.
func mixed(line, pos int32) uint64 {
	if pos == 0 {
		return 0
	}
	x := uint64(line)<<32 | uint64(pos)
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
