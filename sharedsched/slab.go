package sharedsched

// Handle names a task: its place in the slab and the generation of that place, so that a handle kept too long names
// nothing.
type Handle uint64

// Slot returns the place of the task, less than the most tasks there ever were at once. No other task has it until this
// one has ended.
func (h Handle) Slot() int32 { return int32(uint32(h)) }

// slab is the memory of all tasks. Slots are reused, the generation tells their occupants apart.
type slab struct {
	tasks []task
	free  int32 // head of the list of free slots, -1 for none
	live  int
}

// newSlab returns an empty slab.
func newSlab() slab { return slab{free: -1} }

// take returns a free slot and its task, which is empty. Pointers to other tasks may be stale afterwards.
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

// put frees a slot. Handles of its task name nothing any more.
func (s *slab) put(slot int32) {
	t := &s.tasks[slot]
	t.state, t.queue = taskFree, nil
	t.gen++
	t.nextGap = s.free
	s.free = slot
	s.live--
}

// handle returns the present handle of a slot.
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
	slot := h.Slot()
	if slot < 0 || int(slot) >= len(s.tasks) {
		return nil
	}
	if t := &s.tasks[slot]; t.state != taskFree && t.gen == uint32(h>>32) {
		return t
	}
	return nil
}
