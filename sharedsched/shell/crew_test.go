package shell

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/trace"
)

// hangs is an Executor whose batches on a device hang until they are let go, once device is set. The others take 10 ms.
type hangs struct {
	mu     sync.Mutex
	device string // guarded by mu; "" for none
	let    chan struct{}
}

func (h *hangs) on(device string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.device = device
}

func (h *hangs) Execute(b *sharedsched.Batch) sharedsched.Report {
	h.mu.Lock()
	hang := b.Device == h.device
	h.mu.Unlock()
	if hang {
		<-h.let
	}
	time.Sleep(10 * time.Millisecond)
	return sharedsched.Report{DeviceTime: 10 * time.Millisecond}
}

// twoDevices is a scheduler with devices a and b, and a version on each.
func twoDevices(t *testing.T, given Options, exec Executor) (s *Scheduler, onA, onB sharedsched.VersionID) {
	t.Helper()
	s, err := New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "a", Lanes: 2}, {Name: "b", Lanes: 1}}}, exec,
		given)
	if err != nil {
		t.Fatal(err)
	}
	return s, versionOn(t, s, "a"), versionOn(t, s, "b")
}

func versionOn(t *testing.T, s *Scheduler, device string) sharedsched.VersionID {
	t.Helper()
	f, err := s.AddFlow("m", device, 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.AddVersion("m/1", f, sharedsched.Settings{Batched: true, MaxBatchSize: 1, MaxQueue: 100})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDevicesComeAndGo: running tasks of a device that is removed are answered, waiting ones end, another device goes
// on, the device comes back as another one, and a replay decides all of it again.
func TestDevicesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded bytes.Buffer
		s, onA, onB := twoDevices(t, Options{Trace: &recorded}, &hangs{})
		begin := time.Now()
		var callers sync.WaitGroup
		submit := func(v sharedsched.VersionID, want error, after time.Duration) {
			callers.Go(func() {
				if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); !errors.Is(err, want) || time.Since(begin) != after {
					t.Errorf("version %d: %v after %v, want %v after %v", v, err, time.Since(begin), want, after)
				}
			})
			synctest.Wait()
		}
		submit(onA, nil, 10*time.Millisecond) // the first one runs by itself, because it is measured
		submit(onA, sharedsched.ErrRemoved, time.Millisecond)
		submit(onB, nil, 10*time.Millisecond)
		submit(onB, nil, 20*time.Millisecond)
		time.Sleep(time.Millisecond)
		if err := s.RemoveDevice(t.Context(), "a"); err != nil || time.Since(begin) != 10*time.Millisecond {
			t.Errorf("the device was removed after %v, %v; want when its batch ended", time.Since(begin), err)
		}
		callers.Wait()
		begin = time.Now()
		submit(onA, sharedsched.ErrRemoved, 0)
		if err := s.RemoveDevice(t.Context(), "a"); err == nil {
			t.Error("a device was removed twice")
		}
		if st := s.State(); len(st.Devices) != 1 || len(st.Flows) != 1 || len(st.Versions) != 1 {
			t.Errorf("left are %d devices, %d flows and %d versions, want one of each", len(st.Devices), len(st.Flows),
				len(st.Versions))
		}

		if err := s.AddDevice(sharedsched.Device{Name: "b", Lanes: 1}); err == nil {
			t.Error("a second device of the same name: no error")
		}
		if err := s.AddDevice(sharedsched.Device{Name: "a", Lanes: 1}); err != nil {
			t.Fatal(err)
		}
		onA = versionOn(t, s, "a")
		submit(onA, nil, 10*time.Millisecond)
		callers.Wait()
		s.Close()
		if err := s.AddDevice(sharedsched.Device{Name: "c", Lanes: 1}); !errors.Is(err, sharedsched.ErrClosed) {
			t.Errorf("a device is added after the end: %v", err)
		}
		if sum, err := trace.Replay(&recorded); err != nil || sum.Tasks != 5 {
			t.Errorf("the replay of %d tasks, want 5: %v", sum.Tasks, err)
		}
	})
}

// TestHungLaneIsLeftBehind: a lane that hangs holds up neither its device's next incarnation, nor other devices, nor
// the end. When it goes on after all, its caller is answered.
func TestHungLaneIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &hangs{let: make(chan struct{})}
		s, onA, onB := twoDevices(t, Options{}, exec)
		exec.on("a")
		var stuck error
		var caller sync.WaitGroup
		caller.Go(func() { _, stuck = s.Do(t.Context(), onA, &sharedsched.Task{Rows: 1}) })
		synctest.Wait()
		exec.on("")

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("left behind"))
		defer cancel()
		if err := s.RemoveDevice(ctx, "a"); err == nil || err.Error() != "left behind" {
			t.Errorf("the device was removed: %v", err)
		}
		if err := s.AddDevice(sharedsched.Device{Name: "a", Lanes: 2}); err != nil {
			t.Fatal(err)
		}
		for _, v := range []sharedsched.VersionID{versionOn(t, s, "a"), onB} {
			for _, err := range do(t.Context(), s, v, 5, nil) {
				if err != nil {
					t.Errorf("version %d: %v", v, err)
				}
			}
		}
		s.Close()
		close(exec.let)
		caller.Wait()
		if stuck != nil {
			t.Errorf("the caller of what hung: %v", stuck)
		}
	})
}
