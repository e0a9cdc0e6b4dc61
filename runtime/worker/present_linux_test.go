package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// TestRunsDoNotWaitForASlowRestart: runs that come right after a death wait for the next process, and later ones do
// not, which would keep the scheduler's lane from other models for most of the time.
func TestRunsDoNotWaitForASlowRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{pool: &Pool{}, changed: make(chan struct{}), history: history{down: time.Now()}}
		s := &Session{worker: w}
		for _, want := range []time.Duration{quickRestart, 0, 0} {
			began := time.Now()
			err := s.Run(t.Context(), nil)
			if _, is := errors.AsType[*engine.ReopeningError](err); !is {
				t.Errorf("got %v", err)
			}
			if waited := time.Since(began); waited != want {
				t.Errorf("a run waited %v, want %v", waited, want)
			}
		}
	})
}
