package shell

import (
	"runtime"

	"github.com/weftserve/weft/sharedsched"
)

// batchThread runs the batches of one lane, one after the other.
type batchThread struct {
	lane sharedsched.LaneID
	crew *crew
	wake chan struct{} // capacity 1
	idle bool          // guarded by Scheduler.mu
}

// run is the life of a batch thread: settle the last batch, take the next, answer the callers of the last, execute.
func (s *Scheduler) run(t *batchThread) {
	var (
		batch  sharedsched.Batch
		report sharedsched.Report
		sc     scratch
		settle = sharedsched.Event{Kind: sharedsched.EventSettle, Lane: t.lane, Batch: &batch, Report: &report}
		next   = sharedsched.Event{Kind: sharedsched.EventNext, Lane: t.lane, Batch: &batch}
	)
	for running := false; ; {
		if running {
			report = s.exec.Execute(&batch)
		}
		said := s.sample(t.crew.device.Name) // after a rest too: no execution has brought one meanwhile
		read := s.now()
		s.mu.Lock()
		now := s.nowLocked(read)
		sc.reset()
		settled := running
		s.observeLocked(now, t.crew, said) // first: it may explain the time that the batch took
		if running {
			s.keepErrorsLocked(&batch)
			_ = s.stepLocked(now, &settle, &sc.Answer) // it has no error
			clear(batch.Spans)                         // the payloads are their callers' again
		}
		over := s.closed || t.crew.removed
		if over {
			running = false
		} else {
			_ = s.stepLocked(now, &next, &sc.Answer) // it has no error
			running = sc.OK
		}
		s.setIdleLocked(t, !running && !over)
		// The batch that this thread settled may have made room for another lane of its device.
		s.afterEventLocked(now, &sc)
		if running {
			for i := range batch.Spans {
				batch.Spans[i].Payload = s.waiting[batch.Spans[i].Task().Slot()].payload
			}
		}
		s.mu.Unlock()

		if settled && s.obs != nil {
			s.obs.BatchDone(sc.Batch) // first: a caller that has its answer finds its batch counted
		}
		sc.answer()
		switch {
		case over:
			return
		case !running:
			<-t.wake
			// The caller that woke it would have a batch of its own, as Go runs the goroutine that was woken last before
			// the ones that were ready earlier: let these hand in their tasks, too.
			runtime.Gosched()
		}
	}
}

// setIdleLocked notes whether a thread waits for work. With none idle, events need not look for a thread to wake.
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

// wakeThreadsLocked wakes one idle batch thread for each device that has work; a thread that finds more wakes the next.
func (s *Scheduler) wakeThreadsLocked(now sharedsched.Time) {
	for _, c := range s.crews {
		for _, t := range c.threads {
			if !t.idle {
				continue
			}
			if s.core.HasWork(now, t.lane) {
				s.setIdleLocked(t, false)
				signal(t.wake)
			}
			break // the other lanes have the same work
		}
	}
}

// keepErrorsLocked saves the errors of failed spans for their callers. The first failure of a task is the one it
// reports.
func (s *Scheduler) keepErrorsLocked(b *sharedsched.Batch) {
	for i := range b.Spans {
		if sp := &b.Spans[i]; sp.Err != nil {
			if o := s.waiting[sp.Task().Slot()]; o.err == nil {
				o.err = sp.Err
			}
		}
	}
}
