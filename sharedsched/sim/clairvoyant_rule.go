package sim

import (
	"slices"
	"sort"
)

// foreRule is a simple way to choose the next batch: the line whose head's deadline, less a share of its batch's cost, is least.
type foreRule struct {
	slack float64 // that share: 0 is earliest deadline first, 1 least slack first
	drop  bool    // drop heads that force a small batch, rather than serve the head
	limit Time    // of a batch's cost, unless a single request takes longer
}

// rules returns what there is to choose from: the limit is none, or a share of the shortest time that a request has.
func (f *foresight) rules() []foreRule {
	shortest := Never
	for i := range f.lines {
		for j, at := range f.lines[i].arrival {
			shortest = min(shortest, f.lines[i].deadline[j]-at)
		}
	}
	var all []foreRule
	for _, limit := range []Time{Never, shortest * 3 / 4, shortest / 2} {
		for _, slack := range []float64{0, 0.5, 1} {
			all = append(all, foreRule{slack, true, limit}, foreRule{slack, false, limit})
		}
	}
	return all
}

// foreBatch is a batch that a line could start.
type foreBatch struct {
	line   int32
	first  int32 // requests before it are dropped
	after  int32 // the request behind its last
	onTime int32
	cost   Time
	start  Time
	due    Time // the deadline of its first request
}

// form returns the batch that line i starts now out of the requests from pos to n, at least one and none hopeless at the front.
func (f *foresight) form(now Time, i, pos, n int, drop bool, limit Time) foreBatch {
	l := &f.lines[i]
	if drop {
		pos = l.slide(now, pos, n)
	}
	rows := l.within(min(limit, l.deadline[pos]-now), l.before[n]-l.before[pos])
	count, cost := l.takes(pos, n, rows)
	b := foreBatch{line: int32(i), first: int32(pos), after: int32(pos + count), cost: cost, start: now, due: l.deadline[pos]}
	b.onTime = int32(l.onTime(pos, pos+count, now+cost))
	return b
}

// slide returns where lines.sliding would begin a batch. From there it takes as much as is in time.
func (l *foreLine) slide(now Time, pos, n int) int {
	first, rows := pos, 0
	for ; ; first++ {
		rows = min(l.target, l.before[n]-l.before[first])
		if first == n-1 || l.deadline[first] >= now+l.cost[rows] {
			break
		}
	}
	for i := pos; i < first; i++ {
		if l.deadline[i] >= now+l.cost[rows] {
			return i
		}
	}
	return first
}

// skipHopeless returns the first request from pos to n that could be on time if it ran alone now, or n.
func (l *foreLine) skipHopeless(now Time, pos, n int) int {
	for pos < n && l.deadline[pos] < now+l.alone[pos] {
		pos++
	}
	return pos
}

// player plays a rule from some state on. It is used again and again.
type player struct {
	f    *foresight
	rule foreRule
	pos  []int32 // by line: the first request that is neither served nor dropped
	end  []int32 // by line: how many have arrived
	// key is a tournament: leaf i, at len(key)/2+i, is the priority of line i, Never if nothing waits; a node, at k, is the least
	// of those at 2k and 2k+1.
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

// play goes on by the rule from now until a time. It returns how many requests are on time then, of a batch that is cut off a
// part, how many batches were started, and the first of them. Before, pos and end have to be set; they tell where it ended.
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
			i := p.f.arrivals[next].line
			p.end[i]++
			p.set(int(i), p.rank(int(i)))
		}
	}
	return onTime, batches, first
}

// choose returns the batch that the rule starts now. Keys are at most what they would be if every line's batch were formed anew,
// so that only the first lines need to be looked at.
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

// alive returns how many requests wait that could be on time if they ran alone now.
func (p *player) alive(now Time) int {
	n := 0
	for i := range p.pos {
		n += int(p.end[i]) - p.f.lines[i].skipHopeless(now, int(p.pos[i]), int(p.end[i]))
	}
	return n
}

// arrived returns how many requests have arrived.
func (p *player) arrived() int {
	n := 0
	for _, end := range p.end {
		n += int(end)
	}
	return n
}

// bestRule returns the rule that alone answers most requests on time, and how many.
func (f *foresight) bestRule() (best foreRule, onTime float64) {
	for i, rule := range f.rules() {
		if n, _, _ := newPlayer(f, rule).play(0, Never); i == 0 || n > onTime {
			best, onTime = rule, n
		}
	}
	return best, onTime
}
