package shell_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// turtle runs a batch in the time that it is told.
type turtle struct{ takes atomic.Int64 }

func (u *turtle) Execute(*sharedsched.Batch) sharedsched.Report {
	took := time.Duration(u.takes.Load())
	time.Sleep(took)
	return sharedsched.Report{DeviceTime: took}
}

// impatience is a load of callers without deadlines: each asks up to four times, and gives up after its patience, which
// the scheduler is not told about.
type impatience struct {
	patience, takes time.Duration // takes: a batch
	rows            int           // of a batch
	load            float64       // of what the device can do
	queue           int           // the most that may wait
}

func (i *impatience) String() string { return fmt.Sprintf("%+v", *i) }

// TestCallersWithoutDeadlinesGetAnswersAfterASlowdown has a device be slow for ten seconds: then the queue is full of
// tasks whose callers gave up, and retries would keep it so.
func TestCallersWithoutDeadlinesGetAnswersAfterASlowdown(t *testing.T) {
	for seed := range map[bool]uint64{false: 8, true: 1}[race.Enabled] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			i := impatience{
				patience: 200*time.Millisecond + time.Duration(rng.Int64N(int64(2*time.Second))),
				takes:    time.Duration(1+rng.IntN(20)) * time.Millisecond, rows: 1 + rng.IntN(16), load: 0.4 + 0.4*rng.Float64(),
			}
			// In the order of arrival, nobody would be answered by a full queue in time.
			i.queue = int(float64(i.rows) * (1 + rng.Float64()) * float64(i.patience) / float64(i.takes))
			if in := i.run(t); in < 0.95 {
				t.Errorf("%v: %.2f of the requests were answered in time after two seconds", &i, in)
			}
		})
	}
}

// oneModel returns a scheduler with one model on one lane.
func oneModel(t *testing.T, executor shell.Executor, settings sharedsched.Settings) (
	*shell.Scheduler, sharedsched.VersionID,
) {
	t.Helper()
	s, err := shell.New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "cpu", Lanes: 1}}}, executor,
		shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.AddFlow("a", "cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.AddVersion("a/1", f, settings)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

// run returns the part of the requests that were answered in time, of those of the third second after the slowdown.
func (i *impatience) run(t *testing.T) (part float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &turtle{}
		u.takes.Store(int64(i.takes))
		s, v := oneModel(t, u, sharedsched.Settings{
			Batched: true, MaxBatchSize: i.rows, MaxQueue: i.queue, MaxLatency: 10 * time.Second,
		})
		defer s.Close()
		const before, slow, after, measured = time.Second, 10 * time.Second, 2 * time.Second, time.Second
		time.AfterFunc(before, func() { u.takes.Store(5 * int64(i.takes)) })
		time.AfterFunc(before+slow, func() { u.takes.Store(int64(i.takes)) })
		var asked, answered atomic.Int64
		gap := time.Duration(float64(i.takes) / float64(i.rows) / i.load)
		for at := time.Duration(0); at < before+slow+after+measured; at += gap {
			counts := at >= before+slow+after
			go func() {
				if counts {
					asked.Add(1)
				}
				if i.ask(t, s, v) && counts {
					answered.Add(1)
				}
			}()
			time.Sleep(gap)
		}
		time.Sleep(5 * i.patience) // until the last have given up
		part = float64(answered.Load()) / float64(asked.Load())
	})
	return part
}

// ask reports whether one of up to four attempts was answered before its caller gave up.
func (i *impatience) ask(t *testing.T, s *shell.Scheduler, v sharedsched.VersionID) bool {
	t.Helper()
	for attempt := range 4 {
		answer := make(chan error, 1)
		go func() {
			_, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1})
			answer <- err
		}()
		select {
		case err := <-answer:
			if err == nil {
				return true
			}
		case <-time.After(i.patience):
		}
		time.Sleep(10 * time.Millisecond << attempt)
	}
	return false
}
