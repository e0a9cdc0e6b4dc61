package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// orderOf notes in which order payloads are executed, each for a millisecond.
type orderOf struct {
	mu   sync.Mutex
	seen []string
}

func (o *orderOf) Execute(b *sharedsched.Batch) sharedsched.Report {
	o.mu.Lock()
	for i := range b.Spans {
		o.seen = append(o.seen, b.Spans[i].Payload.(string))
	}
	o.mu.Unlock()
	time.Sleep(time.Millisecond)
	return sharedsched.Report{DeviceTime: time.Millisecond}
}

func waitingShell(t *testing.T, exec Executor, set sharedsched.Settings) (*Scheduler, sharedsched.VersionID) {
	t.Helper()
	set.WaitWhenFull = true
	return shell(t, 1, exec, set)
}

// TestCallersWaitForRoomInOrder: with a queue of one, ten callers are all answered, first come first.
func TestCallersWaitForRoomInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &orderOf{}
		s, v := waitingShell(t, exec, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1, MaxLatency: time.Minute})
		var want []string
		var wg sync.WaitGroup
		for i := range 10 {
			name := fmt.Sprint("caller ", i)
			want = append(want, name)
			wg.Go(func() {
				out, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Payload: name})
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
		if a := s.State().Accounts[0]; a.Waits != 8 || a.Waiting != 0 || a.WaitsEnded[sharedsched.WaitAdmitted] != 8 {
			t.Errorf("one ran, one was queued, eight waited and were admitted; the account is %+v", a)
		}
		s.Close()
	})
}

// TestWaitingForRoomEnds: by the limit, by the caller, and when no task is admitted any more.
func TestWaitingForRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := waitingShell(t, &orderOf{}, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1, MaxLatency: time.Minute})
		var wg sync.WaitGroup
		ask := func(ctx context.Context, name string, limit time.Duration, want error) {
			wg.Go(func() {
				task := sharedsched.Task{Rows: 1, Payload: name}
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
		ask(t.Context(), "expires", 500*time.Microsecond, sharedsched.ErrExpired)
		ask(gone, "leaves", 0, context.Canceled)
		ask(t.Context(), "hears of the drain", 0, sharedsched.ErrDraining)
		if state := s.State(); state.Versions[0].Waiting != 3 || state.Versions[0].Queued != 1 ||
			state.Accounts[0].Waiting != 3 {
			t.Errorf("three wait for room, one in the queue; the state tells %+v", state)
		}
		leave()
		time.Sleep(600 * time.Microsecond)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		a := s.State().Accounts[0]
		want := [...]uint64{
			sharedsched.WaitRefused: 1, sharedsched.WaitExpired: 1, sharedsched.WaitCancelled: 1,
		}
		if a.Waits != 3 || a.Waiting != 0 ||
			a.WaitsEnded != want {
			t.Errorf("one each was refused, expired and left; the account is %+v", a)
		}
		s.Close()
	})
}

// TestCloseEndsWaitingForRoom: a caller that waits for room when the scheduler is closed learns so, and is accounted
// for.
func TestCloseEndsWaitingForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := waitingShell(t, &orderOf{}, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1, MaxLatency: time.Minute})
		var wg sync.WaitGroup
		for _, want := range []error{nil, sharedsched.ErrClosed, sharedsched.ErrClosed} {
			wg.Go(func() {
				if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Payload: ""}); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		s.Close()
		wg.Wait()
		if a := s.State().Accounts[0]; a.Waits != 1 || a.Waiting != 0 || a.WaitsEnded[sharedsched.WaitRefused] != 1 {
			t.Errorf("one waited until the scheduler was closed; the account is %+v", a)
		}
	})
}

// TestNobodyWaitsInAnothersLine: where one identity's callers wait for room, another's are admitted.
func TestNobodyWaitsInAnothersLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &orderOf{}
		s, v := waitingShell(t, exec, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1, MaxLatency: time.Minute})
		var wg sync.WaitGroup
		ask := func(who string, most time.Duration) {
			wg.Go(func() {
				out, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Payload: who, Identity: who})
				if err != nil || out.Queue > most {
					t.Errorf("%s waited %v, at most %v are its own; %v", who, out.Queue, most, err)
				}
			})
			synctest.Wait()
		}
		for range 20 {
			ask("flooder", time.Second)
		}
		if n := s.State().Versions[0].Waiting; n != 18 {
			t.Errorf("%d callers wait for room, one ran and one was queued", n)
		}
		ask("modest", 3*time.Millisecond) // the one that runs, and one whose target is no later
		ask("", 5*time.Millisecond)
		if n := s.State().Versions[0].Waiting; n != 18 {
			t.Errorf("%d callers wait for room after two others came", n)
		}
		wg.Wait()
		s.Close()
	})
}

// TestDelivery: what is kept before a limit follows what answers take to be delivered, sooner up than down, and is
// never more than an eighth of the time that is left.
func TestDelivery(t *testing.T) {
	const ms = sharedsched.Time(time.Millisecond)
	var d delivery
	if at := d.before(50*ms, 10*ms); at != 50*ms {
		t.Errorf("nothing was learnt, and a limit of 50 ms becomes %v", time.Duration(at))
	}
	for range 20 {
		d.took(4 * time.Millisecond)
	}
	if at := d.before(50*ms, 10*ms); at < 46*ms || at > 46*ms+ms/10 {
		t.Errorf("answers take 4 ms, and a limit of 50 ms becomes %v", time.Duration(at))
	}
	for range 20 {
		d.took(0)
	}
	if at := d.before(50*ms, 10*ms); at < 47*ms || at > 48*ms {
		t.Errorf("20 answers took no time, and a limit of 50 ms becomes %v", time.Duration(at))
	}
	for limit, want := range map[sharedsched.Time]sharedsched.Time{
		18 * ms: 17 * ms, 10 * ms: 10 * ms, 9 * ms: 9 * ms, sharedsched.Never: sharedsched.Never,
	} {
		if at := d.before(limit, 10*ms); at != want {
			t.Errorf("at 10 ms a limit of %v becomes %v, want %v", time.Duration(limit), time.Duration(at),
				time.Duration(want))
		}
	}
}
