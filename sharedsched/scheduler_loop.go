package sharedsched

// run is the life of a batch thread: settle the last batch, take the next, answer the callers of the last, execute.
func (s *Scheduler) run(t *batchThread) {
	var (
		batch Batch
		sc    scratch
		event BatchEvent
	)
	for running := false; ; {
		var report Report
		if running {
			report = s.exec.Execute(&batch)
		}
		said := s.sample(t.device) // after a rest too: no execution has brought one meanwhile
		read := s.now()
		s.mu.Lock()
		now := s.nowLocked(read)
		sc.reset()
		settled := running
		s.observeLocked(now, t.lane, said) // first, lest the batch be a surprise that the sample explains
		if running {
			s.keepErrorsLocked(&batch)
			event, sc.acts = s.core.Settle(now, t.lane, &batch, report, sc.acts)
			s.trace.settle(now, t.lane, &batch, report, event, sc.acts)
			clear(batch.Spans) // the payloads are their callers' again
		}
		if s.closed {
			running = false
		} else {
			settledActs := len(sc.acts)
			running, sc.acts = s.core.Next(now, t.lane, &batch, sc.acts)
			s.trace.next(now, t.lane, running, &batch, sc.acts[settledActs:])
		}
		s.setIdleLocked(t, !running)
		// What this thread settled may have made room for another lane of its device.
		s.afterEventLocked(now, &sc)
		if running {
			for i := range batch.Spans {
				batch.Spans[i].Payload = s.waiting[batch.Spans[i].task.slot()].payload
			}
		}
		closed := s.closed
		s.mu.Unlock()

		if settled && s.obs != nil {
			s.obs.BatchDone(event) // first: who has an answer finds its batch counted
		}
		sc.answer()
		switch {
		case closed && !running:
			return
		case !running:
			<-t.wake
		}
	}
}

func (s *Scheduler) setIdleLocked(t *batchThread, idle bool) {
	if t.idle != idle {
		t.idle = idle
		if idle {
			s.idle++
		} else {
			s.idle--
		}
	}
}

func (t *batchThread) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// wakeThreadsLocked wakes one idle batch thread for each device that has work; a thread that finds more wakes the next.
func (s *Scheduler) wakeThreadsLocked(now Time) {
	woken := int32(-1)
	for _, t := range s.threads {
		if dev := s.core.lanes[t.lane].device; dev != woken && t.idle && s.core.HasWork(now, t.lane) {
			woken = dev
			s.setIdleLocked(t, false)
			t.signal()
		}
	}
}

// keepErrorsLocked saves the errors of failed spans for their callers. The first failure of a task is the one it reports.
func (s *Scheduler) keepErrorsLocked(b *Batch) {
	for i := range b.Spans {
		if sp := &b.Spans[i]; sp.Err != nil {
			if o := s.waiting[sp.task.slot()]; o.err == nil {
				o.err = sp.Err
			}
		}
	}
}

func (sc *scratch) reset() {
	clear(sc.ended)
	sc.acts, sc.ended = sc.acts[:0], sc.ended[:0]
}

// afterEventLocked follows every event of Core: callers of ended tasks are found, batch threads that have work are woken, and
// the timer is set. sc may be nil where no action can have come.
func (s *Scheduler) afterEventLocked(now Time, sc *scratch) {
	if sc != nil && len(sc.acts) > 0 {
		s.settleLocked(sc)
	}
	if len(s.rooms) > 0 {
		s.callLocked()
	}
	if s.empty != nil {
		s.checkEmptyLocked()
	}
	if s.idle > 0 {
		s.wakeThreadsLocked(now)
	}
	if wake := s.core.NextWake(); wake < s.armed {
		s.rearmLocked(now, wake)
	}
}

// settleLocked carries out what needs the lock: it finds the callers of ended tasks before their slots are used again.
func (s *Scheduler) settleLocked(sc *scratch) {
	for i := range sc.acts {
		switch a := &sc.acts[i]; a.Kind {
		case TaskEnded:
			o := s.waiting[a.Task.slot()]
			s.waiting[a.Task.slot()] = nil
			o.end, o.outcome = a.End, *a.Outcome
			if a.End == EndDropped {
				o.dropped = refusalOf(a)
			}
			sc.ended = append(sc.ended, o)
		case VersionGone:
			if gone := s.gone[a.Version]; gone != nil {
				close(gone)
				delete(s.gone, a.Version)
			}
		}
	}
	sc.acts = sc.acts[:0]
}

func (s *Scheduler) checkEmptyLocked() {
	if s.core.Live() > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// answer wakes the callers of ended tasks. Their ops belong to them from then on.
func (sc *scratch) answer() {
	for i, o := range sc.ended {
		sc.ended[i] = nil
		o.done <- struct{}{}
	}
	sc.ended = sc.ended[:0]
}

// rearmLocked sets the timer for Core's next wish. A timer that fires early finds nothing to do and is set again, which is
// cheaper than moving it whenever the earliest task ends.
func (s *Scheduler) rearmLocked(now, wake Time) {
	if !s.closed {
		s.armed = wake
		s.timer.Reset(max(0, wake.Sub(now)))
	}
}

func (s *Scheduler) onTimer() {
	var sc scratch
	s.mu.Lock()
	now := s.nowLocked(s.now())
	s.armed = Never
	sc.acts = s.core.Advance(now, sc.acts)
	s.trace.event("advance", now, 0, sc.acts)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
}
