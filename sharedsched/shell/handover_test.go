package shell

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// stretches is an Executor that remembers when batches ran. Each takes 10 ms of a device that divides its time between
// those in flight.
type stretches struct {
	mu       sync.Mutex
	ran      [][2]time.Time // guarded by mu; from and to, in order of their beginnings
	inFlight int            // guarded by mu
}

func (s *stretches) Execute(*sharedsched.Batch) sharedsched.Report {
	s.mu.Lock()
	i := len(s.ran)
	from := time.Now()
	s.ran = append(s.ran, [2]time.Time{from})
	s.inFlight++
	for left := 10 * time.Millisecond; left > 0; {
		const step = 10 * time.Microsecond
		left -= step / time.Duration(s.inFlight)
		s.mu.Unlock()
		time.Sleep(step)
		s.mu.Lock()
	}
	s.ran[i][1] = time.Now()
	s.inFlight--
	s.mu.Unlock()
	return sharedsched.Report{DeviceTime: time.Since(from)}
}

// TestNextBatchIsHandedOverBeforeTheLastEnds: of a device whose lanes share its time one lane is woken in time, and the
// other rests.
func TestNextBatchIsHandedOverBeforeTheLastEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &stretches{}
		device := sharedsched.Device{Name: "d", Lanes: 2, Handover: time.Millisecond}
		s, err := New(sharedsched.Config{Devices: []sharedsched.Device{device}}, exec, Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := s.AddFlow("m/1", "d", 1)
		v, err := s.AddVersion("m/1", f, sharedsched.Settings{Batched: true, MaxBatchSize: 1, MaxQueue: 100})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			do(t.Context(), s, v, 1, nil) // the cost of a batch is measured
		}
		first := len(exec.ran)
		do(t.Context(), s, v, 20, nil)
		s.Close()
		const unsure = 6 // batches after which it is known how little their times differ: till then the next waits
		for i := first + 1; i < len(exec.ran); i++ {
			before := exec.ran[i-1][1].Sub(exec.ran[i][0])
			if before < 0 || before > 2*time.Millisecond || i > first+unsure && before < time.Millisecond/2 {
				t.Errorf("batch %d was started %v before the last one ended, want about 1ms", i, before)
			}
		}
	})
}

// sizes is an Executor that remembers the rows of batches.
type sizes []int

func (s *sizes) Execute(b *sharedsched.Batch) sharedsched.Report {
	*s = append(*s, b.Rows)
	return sharedsched.Report{DeviceTime: time.Microsecond}
}

// TestCallersThatAreReadyShareABatch: with one processor, the caller that wakes the batch thread does not have a batch
// of its own while others are ready to run.
func TestCallersThatAreReadyShareABatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	exec := &sizes{}
	s, err := New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "d", Lanes: 1}}}, exec, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := s.AddFlow("m/1", "d", 1)
	v, err := s.AddVersion("m/1", f, sharedsched.Settings{Batched: true, MaxBatchSize: 64, MaxQueue: 100})
	if err != nil {
		t.Fatal(err)
	}
	const rounds, callers = 20, 32
	for range rounds {
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() { do(t.Context(), s, v, 1, nil) })
		}
		calls.Wait()
	}
	s.Close()
	// Without that each call has a batch of its own. On a busy machine some callers come late, and never most of them.
	if n := len(*exec); n > rounds*callers/2 {
		t.Errorf("%d batches for %d times %d callers that were ready at once", n, rounds, callers)
	}
}
