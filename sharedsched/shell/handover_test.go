package shell

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// stretches is an Executor that remembers when batches ran. Each takes 10 ms.
type stretches struct {
	mu  sync.Mutex
	ran [][2]time.Time // guarded by mu; from and to, in order of their beginnings
}

func (s *stretches) Execute(*sharedsched.Batch) sharedsched.Report {
	s.mu.Lock()
	i := len(s.ran)
	s.ran = append(s.ran, [2]time.Time{time.Now()})
	s.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	s.ran[i][1] = time.Now()
	s.mu.Unlock()
	return sharedsched.Report{DeviceTime: 10 * time.Millisecond}
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
		for i := first + 1; i < len(exec.ran); i++ {
			before := exec.ran[i-1][1].Sub(exec.ran[i][0])
			if before < time.Millisecond/2 || before > 2*time.Millisecond {
				t.Errorf("batch %d was started %v before the last one ended, want about 1ms", i, before)
			}
		}
	})
}
