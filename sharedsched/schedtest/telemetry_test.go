package schedtest_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/schedtest"
	"github.com/weftserve/weft/sharedsched/shell"
	"github.com/weftserve/weft/sharedsched/trace"
)

// device is a device whose clock can be halved, and two models on it that have been measured.
type device struct {
	scheduler *shell.Scheduler
	observer  *schedtest.Observer
	slower    float64 // by how much executions take longer now
	during    func()  // happens during the next execution
	models    []sharedsched.VersionID
	took      []time.Duration // at the full clock, by model
	trace     bytes.Buffer
}

const fullClock = 1500 // MHz

// halfClock is by how much executions take longer at half the clock where seven tenths of the time go with it, as a
// cost model that has seen no such change expects.
const halfClock = 1.7

// newDevice must be called inside a synctest bubble. telemetry may be nil.
func newDevice(t *testing.T, telemetry shell.Telemetry) *device {
	t.Helper()
	d := &device{
		observer: &schedtest.Observer{}, slower: 1, during: func() {},
		took: []time.Duration{10 * time.Millisecond, 4 * time.Millisecond},
	}
	execute := func(b *sharedsched.Batch) time.Duration {
		d.during()
		d.during = func() {}
		return time.Duration(float64(d.took[b.Version]) * d.slower)
	}
	var err error
	d.scheduler, err = shell.New(sharedsched.Config{
		Devices: []sharedsched.Device{{Name: "cpu", Lanes: 1}, {Name: "gpu", Lanes: 1}},
	}, schedtest.Executor(execute), shell.Options{Observer: d.observer, Telemetry: telemetry, Trace: &d.trace})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/1", "b/1"} {
		f, err := d.scheduler.AddFlow(name, "gpu", 1)
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.scheduler.AddVersion(name, f, sharedsched.Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 4})
		if err != nil {
			t.Fatal(err)
		}
		d.models = append(d.models, v)
		for range 10 {
			d.run(t, v)
		}
		if got := d.run(t, v); got != d.took[v] {
			t.Fatalf("%s is estimated to take %v, want what it takes, %v", name, got, d.took[v])
		}
	}
	return d
}

// run executes one row of a model and returns its estimate when it began.
func (d *device) run(t *testing.T, v sharedsched.VersionID) time.Duration {
	t.Helper()
	if _, err := d.scheduler.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the observer is called after the caller is answered
	batches := d.observer.Batches()
	return batches[len(batches)-1].Estimated
}

// wrong returns by how much, relative to it, the estimate differs from the present cost of a model.
func (d *device) wrong(v sharedsched.VersionID, estimate time.Duration) float64 {
	ratio := float64(estimate) / (float64(d.took[v]) * d.slower)
	return max(ratio-1, 1-ratio)
}

// TestTelemetryRaisesEstimatesAtOnce: the execution during which the clock fell brings the sample along, and from then
// on the estimates are right, also of a model that has not run since. A device at rest is asked about before it gets
// work.
func TestTelemetryRaisesEstimatesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry := &schedtest.Telemetry{}
		telemetry.Set("gpu", cost.Sample{Clock: fullClock, MaxClock: fullClock})
		d := newDevice(t, telemetry)
		defer d.scheduler.Close()
		a, b := d.models[0], d.models[1]

		d.during = func() {
			d.slower = halfClock
			telemetry.Set("cpu", cost.Sample{Clock: fullClock / 4, MaxClock: fullClock}) // none of ours
			telemetry.Set("gpu", cost.Sample{Clock: fullClock / 2, MaxClock: fullClock})
		}
		if got := d.run(t, a); got != d.took[a] {
			t.Errorf("the batch that brings the sample was estimated to take %v, want %v", got, d.took[a])
		}
		if got := d.run(t, b); d.wrong(b, got) > 0.02 {
			t.Errorf("b is estimated to take %v at half the clock, takes %v at the full one", got, d.took[b])
		}
		if got := d.run(t, a); d.wrong(a, got) > 0.02 {
			t.Errorf("a is estimated to take %v at half the clock, takes %v at the full one", got, d.took[a])
		}
		for _, s := range d.scheduler.State().Devices {
			if want := map[string]float64{"cpu": 1, "gpu": halfClock}[s.Name]; s.Clock != want || s.Residual > 1.02 {
				t.Errorf("%s: factor %v for the clock, want %v; %v for what it does not explain", s.Name, s.Clock, want,
					s.Residual)
			}
		}

		d.slower = 1
		telemetry.Set("gpu", cost.Sample{Clock: fullClock, MaxClock: fullClock})
		if got := d.run(t, a); d.wrong(a, got) > 0.02 {
			t.Errorf("after a rest a is estimated to take %v, takes %v at the full clock", got, d.took[a])
		}
		d.slower = halfClock
		telemetry.Set("gpu", cost.Sample{Clock: fullClock / 2, MaxClock: fullClock})
		d.run(t, a)

		// A sample that has become too old says so.
		d.slower = 1
		telemetry.Set("gpu", cost.Sample{Expired: true})
		d.run(t, a)
		if got := d.run(t, b); d.wrong(b, got) > 0.02 {
			t.Errorf("b is estimated to take %v once nothing is known of the clock, takes %v at the full one", got,
				d.took[b])
		}

		// Samples are events as any other.
		d.scheduler.Close()
		if replayed, err := trace.Replay(&d.trace); err != nil || replayed.Batches != 29 {
			t.Errorf("replayed %d batches, %v; want all 29", replayed.Batches, err)
		}
	})
}

// TestEstimatesFollowWithoutTelemetry: the measured times are enough, within twenty executions.
func TestEstimatesFollowWithoutTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		defer d.scheduler.Close()
		d.slower = halfClock
		wrong := make([]float64, len(d.models))
		batches, right := 0, false
		for ; !right && batches < 100; batches++ {
			v := d.models[batches%len(d.models)]
			wrong[v] = d.wrong(v, d.run(t, v))
			right = batches > 0 && max(wrong[0], wrong[1]) < 0.05
		}
		if batches < 4 || batches > 20 {
			t.Errorf("the estimates of both models are right after %d batches, want it after 4 to 20", batches)
		}
	})
}

// TestOlderSamplesAreIgnored: of two lanes, the one that asked first may come second.
func TestOlderSamplesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry := &turning{
			say: []cost.Sample{
				1: {Clock: fullClock, MaxClock: fullClock},
				2: {Clock: fullClock / 2, MaxClock: fullClock},
			},
			numbers: []uint64{2, 1, 2},
		}
		s, v := scheduler(t, time.Millisecond, telemetry)
		defer s.Close()
		for range telemetry.numbers {
			if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); err != nil {
				t.Fatal(err)
			}
			if clock := s.State().Devices[0].Clock; clock != halfClock {
				t.Errorf("factor %v for the clock, want %v", clock, halfClock)
			}
		}
	})
}

// turning returns its samples in the order of numbers, again and again.
type turning struct {
	say     []cost.Sample // by number
	numbers []uint64
	asked   int
}

func (t *turning) Sample(string) (cost.Sample, uint64) {
	n := t.numbers[t.asked%len(t.numbers)]
	t.asked++
	return t.say[n], n
}

// TestTelemetryDoesNotAllocate: neither asking nor a sample that is new each time allocates.
func TestTelemetryDoesNotAllocate(t *testing.T) {
	telemetry := &schedtest.Telemetry{}
	s, v := scheduler(t, 0, telemetry)
	defer s.Close()
	task := &sharedsched.Task{Rows: 1}
	clock := 0
	turn := func() {
		clock++
		telemetry.Set("gpu", cost.Sample{
			Clock: fullClock - clock%2*fullClock/2, MaxClock: fullClock, MemoryFree: int64(512+64*(clock%2)) << 20,
			MemoryTotal: 8 << 30,
		})
		if _, err := s.Do(t.Context(), v, task); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Errorf("%v allocations for a task", n)
	}
	state := s.State()
	if state.Devices[0].Clock == 1 || state.Versions[0].Queues[0].MemoryRows == 0 {
		t.Error("the samples did not arrive")
	}
}
