package schedtest_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/schedtest"
	"github.com/weftserve/weft/sharedsched/shell"
	"github.com/weftserve/weft/sharedsched/trace"
)

// crowd is a scheduler with one model on a device, which many callers ask for one row each at once.
type crowd struct {
	*shell.Scheduler
	version   sharedsched.VersionID
	telemetry schedtest.Telemetry
	observer  schedtest.Observer
	trace     bytes.Buffer
}

// newCrowd must be called inside a synctest bubble. The model is measured for batches of 1, 2, 4 and 8.
func newCrowd(t *testing.T, executor shell.Executor, settings sharedsched.Settings, sample cost.Sample) *crowd {
	t.Helper()
	c := &crowd{}
	c.telemetry.Set("gpu", sample)
	var err error
	c.Scheduler, err = shell.New(sharedsched.Config{
		Devices: []sharedsched.Device{{Name: "gpu", Class: "cuda", Lanes: 1}},
	}, executor, shell.Options{Observer: &c.observer, Telemetry: &c.telemetry, Trace: &c.trace})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.AddFlow("a", "gpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	settings.Batched, settings.MaxQueue = true, 100
	if c.version, err = c.AddVersion("a/1", f, settings); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{1, 2, 4, 8} {
		for range 4 {
			if _, err := c.Do(t.Context(), c.version, &sharedsched.Task{Rows: rows, Alone: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// ask lets that many callers ask for a row each and returns the rows of the batches that answered them. The first finds
// the device idle and runs alone; the others arrive while it runs.
func (c *crowd) ask(t *testing.T, callers int) []int {
	t.Helper()
	before := len(c.observer.Batches())
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if _, err := c.Do(t.Context(), c.version, &sharedsched.Task{Rows: 1}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	wg.Wait()
	synctest.Wait()
	var rows []int
	for _, b := range c.observer.Batches()[before:] {
		rows = append(rows, b.Rows)
	}
	return rows
}

// replays checks that the trace decides the same once more.
func (c *crowd) replays(t *testing.T) {
	t.Helper()
	c.Close()
	if replayed, err := trace.Replay(&c.trace); err != nil || replayed.Batches != len(c.observer.Batches()) {
		t.Errorf("replayed %d batches of %d: %v", replayed.Batches, len(c.observer.Batches()), err)
	}
}

// TestClockStepMakesBatchesSmaller: a budget holds fewer rows at half the clock, which makes them dearer, from the
// first sample on.
func TestClockStepMakesBatchesSmaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slower := 1.0
		executor := schedtest.Executor(func(b *sharedsched.Batch) time.Duration {
			return time.Duration(float64(b.Rows) * slower * float64(2500*time.Microsecond))
		})
		c := newCrowd(t, executor, sharedsched.Settings{MaxBatchSize: 8, MaxBatchCost: 20 * time.Millisecond},
			cost.Sample{Clock: fullClock, MaxClock: fullClock})
		if got, want := c.ask(t, 17), []int{1, 8, 8}; !slices.Equal(got, want) {
			t.Errorf("at the full clock batches have %d rows, want %d", got, want)
		}
		slower = halfClock
		c.telemetry.Set("gpu", cost.Sample{Clock: fullClock / 2, MaxClock: fullClock})
		if got, want := c.ask(t, 9), []int{1, 4, 4}; !slices.Equal(got, want) {
			t.Errorf("at half of it batches have %d rows, want %d", got, want)
		}
		batches := c.observer.Batches()
		if last := batches[len(batches)-1]; last.Estimated < 16900*time.Microsecond ||
			last.Estimated > 17100*time.Microsecond {
			t.Errorf("at half the clock 4 rows are estimated to take %v, want 17 ms", last.Estimated)
		}
		c.replays(t)
	})
}

// tooLarge executes batches that need more memory than there is as a host does: it finds out, and runs two halves.
type tooLarge struct {
	most int // rows that fit
}

func (e *tooLarge) Execute(b *sharedsched.Batch) sharedsched.Report {
	took := time.Duration(b.Rows) * time.Millisecond
	r := sharedsched.Report{DeviceTime: took}
	if b.Rows > e.most {
		r = sharedsched.Report{DeviceTime: 2 * took, Unusable: true, OutOfMemory: true}
	}
	time.Sleep(r.DeviceTime)
	return r
}

// TestMemoryBoundsBatches: telemetry's reading of memory keeps executions larger than ever from being tried; where the
// reading is wrong, the first execution that fails shows it.
func TestMemoryBoundsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		executor := &tooLarge{most: 12}
		c := newCrowd(t, executor, sharedsched.Settings{MaxBatchSize: 16, RowMemory: 64 * mib},
			cost.Sample{MemoryFree: 2048 * mib, MemoryTotal: 8192 * mib})
		// The first batch brings the sample along: four more rows than have run before.
		c.telemetry.Set("gpu", cost.Sample{MemoryFree: (512 + 4*64) * mib, MemoryTotal: 8192 * mib})
		if got, want := c.ask(t, 17), []int{1, 12, 4}; !slices.Equal(got, want) {
			t.Errorf("batches have %d rows, want %d", got, want)
		}
		if s := c.State(); s.Versions[0].Queues[0].MemoryRows != 12 || s.Devices[0].MemoryFree != 512*mib {
			t.Errorf("state: %+v, %+v", s.Devices[0], s.Versions[0].Queues[0])
		}
		// Now telemetry promises too much.
		c.telemetry.Set("gpu", cost.Sample{MemoryFree: 4096 * mib, MemoryTotal: 8192 * mib})
		if got, want := c.ask(t, 33), []int{1, 16, 8, 8}; !slices.Equal(got, want) {
			t.Errorf("batches have %d rows, want %d", got, want)
		}
		time.Sleep(time.Minute)
		executor.most = 16
		if got, want := c.ask(t, 33), []int{1, 16, 16}; !slices.Equal(got, want) {
			t.Errorf("a minute later batches have %d rows, want %d", got, want)
		}
		c.replays(t)
	})
}
