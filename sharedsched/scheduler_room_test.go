package sharedsched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// order notes in which order payloads are executed, each for a millisecond.
type orderOf struct {
	mu   sync.Mutex
	seen []string
}

func (o *orderOf) Execute(b *Batch) Report {
	o.mu.Lock()
	for i := range b.Spans {
		o.seen = append(o.seen, b.Spans[i].Payload.(string))
	}
	o.mu.Unlock()
	time.Sleep(time.Millisecond)
	return Report{DeviceTime: time.Millisecond}
}

func waitingShell(t *testing.T, exec Executor, set Settings) (*Scheduler, VersionID) {
	t.Helper()
	set.WaitWhenFull = true
	return shell(t, 1, exec, set)
}

// TestCallersWaitForRoomInOrder: with a queue of one, ten callers are all answered, first come first.
func TestCallersWaitForRoomInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &orderOf{}
		s, v := waitingShell(t, exec, Settings{MaxBatchSize: 1, MaxQueue: 1, MaxLatency: time.Minute})
		var want []string
		var wg sync.WaitGroup
		for i := range 10 {
			name := fmt.Sprint("caller ", i)
			want = append(want, name)
			wg.Go(func() {
				out, err := s.Do(t.Context(), v, &Task{Rows: 1, Payload: name})
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if wait := time.Duration(i) * time.Millisecond; out.Queue != wait {
					t.Errorf("%s waited %v, want %v", name, out.Queue, wait)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.Equal(exec.seen, want) {
			t.Errorf("executed %q, want %q", exec.seen, want)
		}
		s.Close()
	})
}

// TestWaitingForRoomEnds: by the limit, by the caller, and when nobody is admitted any more.
func TestWaitingForRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := waitingShell(t, &orderOf{}, Settings{MaxBatchSize: 1, MaxQueue: 1, MaxLatency: time.Minute})
		var wg sync.WaitGroup
		ask := func(ctx context.Context, name string, limit time.Duration, want error) {
			wg.Go(func() {
				task := Task{Rows: 1, Payload: name}
				if limit > 0 {
					task.Limit = time.Now().Add(limit)
				}
				if _, err := s.Do(ctx, v, &task); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			})
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		ask(t.Context(), "runs", 0, nil)
		ask(t.Context(), "is queued", 0, nil)
		ask(t.Context(), "expires", 500*time.Microsecond, ErrExpired)
		ask(gone, "leaves", 0, context.Canceled)
		ask(t.Context(), "hears of the drain", 0, ErrDraining)
		leave()
		time.Sleep(600 * time.Microsecond)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		s.Close()
	})
}
