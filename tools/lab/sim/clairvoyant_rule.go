package sim

// foreRule is a simple way to choose the next batch: the line whose head's deadline, less a share of its batch's cost,
// is least.
type foreRule struct {
	slack float64 // that share: 0 is earliest deadline first, 1 least slack first
	drop  bool    // drop heads that force a small batch, rather than serve the head
	limit Time    // of a batch's cost, unless a single request takes longer
}

// rules returns the rules to choose from: the limit is none, or a share of the shortest time that a request has.
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

// form returns the batch that line i starts now out of the requests from pos to n, at least one and none hopeless at
// the front.
func (f *foresight) form(now Time, i, pos, n int, drop bool, limit Time) foreBatch {
	l := &f.lines[i]
	if drop {
		pos = l.slide(now, pos, n)
	}
	rows := l.within(min(limit, l.deadline[pos]-now), l.before[n]-l.before[pos])
	count, cost := l.takes(pos, n, rows)
	b := foreBatch{
		line: int32(i), first: int32(pos), after: int32(pos + count), cost: cost, start: now,
		due: l.deadline[pos],
	}
	b.onTime = int32(l.onTime(pos, pos+count, now+cost))
	return b
}

// slide returns where lines.sliding would begin a batch. From there it takes as much as is in time.
func (l *foreLine) slide(now Time, pos, n int) int {
	first := pos
	var rows int
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

// bestRule returns the rule that alone answers most requests on time, and how many.
func (f *foresight) bestRule() (best foreRule, onTime float64) {
	for i, rule := range f.rules() {
		if n, _, _ := newPlayer(f, rule).play(-1, Never); i == 0 || n > onTime {
			best, onTime = rule, n
		}
	}
	return best, onTime
}
