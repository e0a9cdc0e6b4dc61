package sharedsched

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weftserve/weft/sharedsched/cost"
)

// shape holds the known costs of one shape of a version. Its queues share it.
type shape struct {
	cost.Curve
	memory memoryBound
	queues []*queue // live ones of this shape, by id
	used   uint64   // when a queue asked for it last, in tasks ever submitted
	by     *tenancy // of the flow that asked for it first
	// refusing is since when tasks are refused on its estimates alone, with nothing measured in between; Never: not so.
	refusing Time
}

// shape returns the shape of a key, a new one if need be, which a flow asks for. It outlives its queues, for costs are
// dear to learn. Past maxQueues of one flow, or maxOfAll, one that has no queue is forgotten, if there is one.
func (v *version) shape(key string, by *tenancy, now uint64, state *cost.Device) *shape {
	if s, ok := v.shapes[key]; ok {
		s.used = now
		return s
	}
	if by.shapes >= maxQueues {
		v.forgetShape(func(s *shape) bool { return s.by == by })
	}
	if len(v.shapes) >= maxOfAll {
		v.forgetShape(func(*shape) bool { return true })
	}
	by.shapes++
	s := &shape{refusing: Never, used: now, by: by}
	s.On(state)
	s.Of(int32(v.id))
	if p := v.previous[key]; p != nil {
		s.Inherit(&p.Curve)
	}
	v.shapes[strings.Clone(key)] = s // the caller's may be part of a longer one
	return s
}

// forgetShape forgets one of some shapes that have no queue: of those of the flow that brought most of them the one
// that was asked for longest ago. Where queues of others use all shapes of a flow, there is none.
func (v *version) forgetShape(of func(*shape) bool) {
	victim := ""
	var oldest *shape
	// No two were asked for by the same task, so that the order of iteration does not matter.
	for k, s := range v.shapes {
		if len(s.queues) == 0 && of(s) && (oldest == nil ||
			cmp.Or(cmp.Compare(oldest.by.shapes, s.by.shapes), cmp.Compare(s.used, oldest.used)) < 0) {
			victim, oldest = k, s
		}
	}
	if oldest != nil {
		oldest.by.shapes--
		delete(v.shapes, victim)
	}
}

// place returns where the queue stands, or would stand, among those of the shape: they are kept in order, so that the
// effects of a change of cost do not depend on which of them came first.
func (s *shape) place(q *queue) int {
	i, _ := slices.BinarySearchFunc(s.queues, q.id, func(other *queue, id int32) int { return int(other.id - id) })
	return i
}

// join adds a queue that is new.
func (s *shape) join(q *queue) { s.queues = slices.Insert(s.queues, s.place(q), q) }

// leave takes out a queue that is dropped.
func (s *shape) leave(q *queue) { i := s.place(q); s.queues = slices.Delete(s.queues, i, i+1) }
