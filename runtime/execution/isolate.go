package execution

import (
	"cmp"
	"math/bits"
	"time"
)

// defaultIsolation is how long the search for the cause in a failed batch may take, where the model has no budget for
// batches. Other batches wait meanwhile.
const defaultIsolation = 100 * time.Millisecond

// group is some parts, and the error of a run that they were all in.
type group struct {
	parts []part
	err   error
}

// isolate finds the parts that made a batch fail by running ever smaller groups of it, and answers the others. For n
// parts it makes at most 2·⌈log₂ n⌉ runs, which suffice for one cause, and starts none once they took the time of one
// batch. Parts that it could not separate by then are run again one by one, each when the scheduler has a place for it.
// It goes breadth first, because a large group that runs well answers many requests at once.
func (x *execution) isolate(err error, parts []part) {
	runs := 2 * bits.Len(uint(len(parts)-1))
	end := time.Now().Add(cmp.Or(x.plan.Budget, defaultIsolation))
	var latest error // of the runs
	spent := func() bool { return runs == 0 || x.ended(latest) || !time.Now().Before(end) }

	// A group of one in the list has failed alone; a larger one holds a cause.
	for todo := []group{{parts, err}}; len(todo) > 0; todo = todo[1:] {
		g := todo[0]
		if len(g.parts) == 1 || spent() {
			x.fail(g.err, g.parts, len(g.parts) > 1)
			continue
		}
		middle := (len(g.parts) + 1) / 2
		left, right := group{g.parts[:middle], g.err}, group{g.parts[middle:], g.err}
		runs--
		left.err = x.again(left.parts)
		if latest = left.err; isRowless(left.err) {
			x.separate(left.err, left.parts)
			left.err = nil // none of them is the cause
		}
		if left.err != nil {
			todo = append(todo, left)
		} else if len(right.parts) > 1 {
			// The cause must be on the right; that needs no run to know.
			todo = append(todo, right)
			continue
		}
		if spent() {
			x.fail(g.err, right.parts, true)
			continue
		}
		runs--
		right.err = x.again(right.parts)
		if latest = right.err; isRowless(right.err) {
			x.separate(right.err, right.parts)
		} else if right.err != nil {
			todo = append(todo, right)
		}
	}
}
