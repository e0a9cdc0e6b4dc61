package sharedsched

import "time"

// Handle names a task: its place in the slab and the generation of that place, so that a handle kept too long names nothing.
type Handle uint64

func (h Handle) slot() int32 { return int32(uint32(h)) }

// taskState is where a task is in its life: queued by enqueue, running by takeRows, ending by stop, free by finish.
//
//	queued → running → (free)     all rows started, then all ended
//	queued → (free)               cancelled, expired or closed before any row started
//	queued → ending → (free)      the same after some rows started, or one of them failed: the rest is never started
//	running → ending → (free)     an execution failed while others of its rows were running
type taskState uint8

const (
	taskFree    taskState = iota
	taskQueued            // some rows wait in the queue's ring
	taskRunning           // every row was started, some have not ended
	taskEnding            // how it ends is decided; started rows have not ended
)

type task struct {
	gen   uint32
	state taskState
	order
	queue *queue

	alone, unmeasured bool
	probe             bool // admitted against the estimate, to check it
	end               End  // for taskEnding: how it will end

	rows    int // in all
	next    int // first row that was not started
	running int // rows started and not ended
	bytes   int64
	work    time.Duration // it is expected to cost
	arrival Time
	limit   Time // Never for none
	wanted  Time // by when its batch is to end for a target that somebody named; Never if nobody did

	started Time // of the first execution
	outcome Outcome
	nextGap int32 // for taskFree: the next free slot, -1 for none
}

// deadline returns when an answer stops being worth anything, as far as estimates may decide on that.
func (t *task) deadline() Time {
	if t.probe {
		return Never
	}
	return t.limit
}

// slab is the memory of all tasks. Slots are reused, the generation tells their occupants apart.
type slab struct {
	tasks []task
	free  int32 // head of the list of free slots, -1 for none
	live  int
}

func newSlab() slab { return slab{free: -1} }

func (s *slab) take() (int32, *task) {
	s.live++
	if s.free < 0 {
		s.tasks = append(s.tasks, task{gen: 1})
		return int32(len(s.tasks) - 1), &s.tasks[len(s.tasks)-1]
	}
	slot := s.free
	t := &s.tasks[slot]
	s.free = t.nextGap
	*t = task{gen: t.gen}
	return slot, t
}

func (s *slab) put(slot int32) {
	t := &s.tasks[slot]
	t.state, t.queue = taskFree, nil
	t.gen++
	t.nextGap = s.free
	s.free = slot
	s.live--
}

func (s *slab) handle(slot int32) Handle {
	return Handle(uint64(s.tasks[slot].gen)<<32 | uint64(uint32(slot)))
}

// waits reports whether h names a task that has rows waiting.
func (s *slab) waits(h Handle) bool {
	t := s.get(h)
	return t != nil && t.state == taskQueued
}

// get returns the task that h names, or nil if it has ended.
func (s *slab) get(h Handle) *task {
	slot := h.slot()
	if slot < 0 || int(slot) >= len(s.tasks) {
		return nil
	}
	if t := &s.tasks[slot]; t.state != taskFree && t.gen == uint32(h>>32) {
		return t
	}
	return nil
}
