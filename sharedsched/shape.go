package sharedsched

import (
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
	// refusing is since when tasks are refused on its estimates alone, with nothing measured in between; Never: not so.
	refusing Time
}

// shape returns the shape of a key, a new one if need be. It outlives its queues, for costs are dear to learn; past
// maxQueues of them the shape that has no queue and was asked for longest ago is forgotten.
func (v *version) shape(key string, now uint64, state *cost.Device) *shape {
	if s, ok := v.shapes[key]; ok {
		s.used = now
		return s
	}
	if len(v.shapes) >= maxQueues {
		victim := ""
		var oldest *shape
		// There are fewer than maxQueues queues now, so that some shape has none. No two were asked for by the same
		// task, so that the order of iteration does not matter.
		for k, s := range v.shapes {
			if len(s.queues) == 0 && (oldest == nil || s.used < oldest.used) {
				victim, oldest = k, s
			}
		}
		delete(v.shapes, victim)
	}
	s := &shape{refusing: Never, used: now}
	s.On(state)
	s.Of(int32(v.id))
	if p := v.previous[key]; p != nil {
		s.Inherit(&p.Curve)
	}
	v.shapes[strings.Clone(key)] = s // the caller's may be part of a longer one
	return s
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
