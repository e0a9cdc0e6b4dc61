package sim

import "sort"

// player plays a rule from some state on. It is used again and again.
type player struct {
	f    *foresight
	rule foreRule
	pos  []int32 // by line: the first request that is neither served nor dropped
	end  []int32 // by line: how many have arrived
}

func newPlayer(f *foresight, rule foreRule) *player {
	return &player{f, rule, make([]int32, len(f.lines)), make([]int32, len(f.lines))}
}

// play goes on by the rule from now until a time. It returns how many requests are on time then (of a batch that is cut
// off, a part), how many batches were started, and the first of them. The caller sets pos and end before; afterwards
// they say where it ended.
func (p *player) play(now, until Time) (onTime float64, batches int, first foreBatch) {
	next := sort.Search(len(p.f.arrivals), func(g int) bool { return p.f.arrivals[g].at > now })
	for now < until {
		b, ok := p.choose(now)
		switch {
		case ok:
			p.pos[b.line] = b.after
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
			p.end[p.f.arrivals[next].line]++
		}
	}
	return onTime, batches, first
}

// choose returns the batch that the rule starts now. A line's batch is formed only if it could come before all others.
func (p *player) choose(now Time) (foreBatch, bool) {
	least := Never
	var best foreBatch
	for i := range p.pos {
		if p.rank(i) >= least {
			continue
		}
		n := int(p.end[i])
		pos := p.f.lines[i].skipHopeless(now, int(p.pos[i]), n)
		p.pos[i] = int32(pos)
		if pos == n {
			continue
		}
		b := p.f.form(now, i, pos, n, p.rule.drop, p.rule.limit)
		if key := b.due - Time(p.rule.slack*float64(b.cost)); key < least {
			least, best = key, b
		}
	}
	return best, least < Never
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
