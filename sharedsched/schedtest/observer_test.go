package schedtest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/schedtest"
	"github.com/weftserve/weft/sharedsched/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scheduler returns one with a device, gpu, and a version that executes tasks one by one, each in the time given.
func scheduler(t *testing.T, took time.Duration,
	telemetry shell.Telemetry,
) (*shell.Scheduler, sharedsched.VersionID) {
	t.Helper()
	s, err := shell.New(
		sharedsched.Config{Devices: []sharedsched.Device{{Name: "gpu", Lanes: 1}}},
		schedtest.Executor(func(*sharedsched.Batch) time.Duration { return took }),
		shell.Options{Telemetry: telemetry})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.AddFlow("a/1", "gpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.AddVersion("a/1", f, sharedsched.Settings{MaxBatchSize: 8, MaxQueue: 1, RowMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

// TestSacrificesAreRefused: the caller of a task that is given up for others learns that, and why.
func TestSacrificesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := scheduler(t, 10*time.Millisecond, nil)
		defer s.Close()
		do := func(p sharedsched.Priority, result *error) {
			go func() { _, *result = s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Priority: p}) }()
			synctest.Wait()
		}
		var running, dropped, waiting error
		do(sharedsched.Critical, &running)
		do(sharedsched.SheddablePlus, &dropped)
		do(sharedsched.Critical, &waiting) // takes the only place in the queue
		refusal, ok := errors.AsType[*sharedsched.Refusal](dropped)
		if !ok || refusal.Reason != sharedsched.RefusedForGoodput {
			t.Errorf("the sacrifice got %v", dropped)
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if running != nil || waiting != nil {
			t.Errorf("the others got %v and %v", running, waiting)
		}
	})
}
