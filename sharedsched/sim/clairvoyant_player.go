package sim

import (
	"slices"
	"sort"
)

// player plays a rule from some state on. It is used again and again.
type player struct {
	f    *foresight
	rule foreRule
	pos  []int32 // by line: the first request that is neither served nor dropped
	end  []int32 // by line: how many have arrived
	// key is a tournament: leaf i, at len(key)/2+i, is the priority of line i, Never if nothing waits; a node, at k, is
	// the least of those at 2k and 2k+1.
	key []Time
}

func newPlayer(f *foresight, rule foreRule) *player {
	n := len(f.lines)
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	return &player{f, rule, make([]int32, n), make([]int32, n), slices.Repeat([]Time{Never}, 2*leaves)}
}

// play goes on by the rule from now until a time. It returns how many requests are on time then (of a batch that is cut
// off, a part), how many batches were started, and the first of them. The caller sets pos and end before; afterwards
// they say where it ended.
func (p *player) play(now, until Time) (onTime float64, batches int, first foreBatch) {
	leaves := p.key[len(p.key)/2:]
	for i := range p.pos {
		leaves[i] = p.rank(i)
	}
	for k := len(p.key)/2 - 1; k > 0; k-- {
		p.key[k] = min(p.key[2*k], p.key[2*k+1])
	}
	next := sort.Search(len(p.f.arrivals), func(g int) bool { return p.f.arrivals[g].at > now })
	for now < until {
		b, ok := p.choose(now)
		switch {
		case ok:
			p.pos[b.line] = b.after
			p.set(int(b.line), p.rank(int(b.line)))
			if batches++; batches == 1 {
				first = b
			}
			if now+b.cost > until {
				return onTime + float64(b.onTime)*float64(until-now)/float64(b.cost), batches, first
			}
			now += b.cost
			onTime += float64(b.onTime)
		case next == len(p.f.arrivals):
			return onTime, batches, first
		default:
			now = p.f.arrivals[next].at
		}
		for ; next < len(p.f.arrivals) && p.f.arrivals[next].at <= now; next++ {
			p.arrive(int(p.f.arrivals[next].line))
		}
	}
	return onTime, batches, first
}

// choose returns the batch that the rule starts now. A key is at most what it would be if its line's batch were formed
// again, so that only the first lines need to be looked at.
func (p *player) choose(now Time) (foreBatch, bool) {
	formed := -1
	var b foreBatch
	for {
		least := p.key[1]
		if least == Never {
			return b, false
		}
		k := 1
		for k < len(p.key)/2 {
			if k *= 2; p.key[k] > least {
				k++
			}
		}
		best := k - len(p.key)/2
		if best == formed {
			return b, true
		}
		n := int(p.end[best])
		pos := p.f.lines[best].skipHopeless(now, int(p.pos[best]), n)
		p.pos[best] = int32(pos)
		if pos == n {
			p.set(best, Never)
			continue
		}
		b, formed = p.f.form(now, best, pos, n, p.rule.drop, p.rule.limit), best
		p.set(best, max(least, b.due-Time(p.rule.slack*float64(b.cost))))
	}
}

// arrive adds a request to line i. The batch that the line could start becomes more urgent by the added cost only.
func (p *player) arrive(i int) {
	p.end[i]++
	pos, n := p.pos[i], p.end[i]
	if n == pos+1 {
		p.set(i, p.rank(i))
		return
	}
	l := &p.f.lines[i]
	if rows := l.before[n] - l.before[pos]; p.rule.slack > 0 && rows <= l.max {
		less := p.rule.slack * float64(l.cost[rows]-l.cost[l.before[n-1]-l.before[pos]])
		p.set(i, p.key[len(p.key)/2+i]-Time(less))
	}
}

// set gives line i a key.
func (p *player) set(i int, key Time) {
	k := len(p.key)/2 + i
	p.key[k] = key
	for k /= 2; k > 0; k /= 2 {
		least := min(p.key[2*k], p.key[2*k+1])
		if p.key[k] == least {
			return
		}
		p.key[k] = least
	}
}

// rank returns a key for line i that is at most that of any batch it could start.
func (p *player) rank(i int) Time {
	pos, n := p.pos[i], p.end[i]
	if pos == n {
		return Never
	}
	l := &p.f.lines[i]
	cost := l.cost[min(l.max, l.before[n]-l.before[pos])]
	return l.deadline[pos] - Time(p.rule.slack*float64(cost))
}

// waiting returns how many of the requests that wait could be on time if they ran alone now, and how many have arrived
// in all.
func (p *player) waiting(now Time) (alive, arrived int) {
	for i := range p.pos {
		n := int(p.end[i])
		alive += n - p.f.lines[i].skipHopeless(now, int(p.pos[i]), n)
		arrived += n
	}
	return alive, arrived
}
