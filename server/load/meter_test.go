package load_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/server/load"
	"github.com/weftserve/weft/sharedsched"
)

// house is a scheduler and a pipeline that a test directs, by change.
type house struct {
	mu               sync.Mutex // guards all
	began, settled   time.Time
	devices          []sharedsched.DeviceLoad
	works            []float64 // of each device the part of the time in which it works
	answered, lacked float64
	rate, refusals   float64 // a second, of both
	measured         int
}

// change brings what has added up to the present, and then changes what is to come.
func (h *house) change(by func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := time.Since(h.settled)
	h.settled = time.Now()
	for i := range h.devices {
		h.devices[i].Busy += time.Duration(float64(passed) * h.works[i])
	}
	h.answered += h.rate * passed.Seconds()
	h.lacked += h.refusals * passed.Seconds()
	by()
}

// watched returns a meter of a house that begins now, and watches it until the end of the test.
func (h *house) watched(t *testing.T, budget time.Duration) *load.Meter {
	t.Helper()
	h.began, h.settled = time.Now(), time.Now()
	m := load.New(load.Config{
		Budget: budget,
		Devices: func() (at sharedsched.Time, devices []sharedsched.DeviceLoad) {
			h.change(func() { at, devices = sharedsched.Time(time.Since(h.began)), slices.Clone(h.devices) })
			return at, devices
		},
		Requests: func() (answered, lacked uint64) {
			h.change(func() {
				answered, lacked = uint64(h.answered+1e-6), uint64(h.lacked+1e-6)
				h.measured++
			})
			return answered, lacked
		},
	})
	go m.Watch(t.Context())
	return m
}

// report reads what the trailer of an answer says now, after all that happens at this moment.
func report(t *testing.T, m *load.Meter) *orca.OrcaLoadReport {
	t.Helper()
	synctest.Wait()
	r := &orca.OrcaLoadReport{}
	encoded := m.Trailer().Get(load.TrailerKey)
	if len(encoded) != 1 {
		t.Fatalf("%d reports, want one", len(encoded))
	}
	if err := proto.Unmarshal([]byte(encoded[0]), r); err != nil {
		t.Fatal(err)
	}
	want := &orca.OrcaLoadReport{
		ApplicationUtilization: r.GetApplicationUtilization(), RpsFractional: r.GetRpsFractional(), Eps: r.GetEps(),
	}
	if !proto.Equal(r, want) {
		t.Errorf("the report has more than three numbers: %v", r)
	}
	return r
}

// wantUtilization wants one within a few thousandths.
func wantUtilization(t *testing.T, m *load.Meter, want float64) {
	t.Helper()
	if got := report(t, m).GetApplicationUtilization(); math.Abs(got-want) > 0.005 {
		t.Errorf("utilization %.4f, want %.4f", got, want)
	}
}

// TestUtilization is busy + backlog / budget, of the devices' mean.
func TestUtilization(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		busy, work float64 // work in milliseconds
		full       time.Duration
		budget     time.Duration
		devices    int
		want       float64
	}{
		"nothing to do":                      {devices: 1, full: 50 * ms, want: 0},
		"busy":                               {devices: 1, busy: 0.3, full: 50 * ms, want: 0.3},
		"as much waits as one full batch":    {devices: 1, busy: 1, work: 50, full: 50 * ms, want: 2},
		"small batches":                      {devices: 1, busy: 0.5, work: 5, full: 2 * ms, want: 0.75},
		"cost of batches unknown":            {devices: 1, busy: 0.5, work: 5, want: 0.75},
		"large batches":                      {devices: 1, busy: 1, work: 100, full: 900 * ms, want: 1.5},
		"a budget":                           {devices: 1, busy: 1, work: 100, full: 900 * ms, budget: 400 * ms, want: 1.25},
		"another device works as much, idly": {devices: 2, busy: 0.4, work: 50, full: 50 * ms, want: 1.4 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &house{rate: 40}
				for i := range c.devices {
					h.devices = append(h.devices, sharedsched.DeviceLoad{Name: string(rune('a' + i)), Full: c.full})
					h.works = append(h.works, 0)
				}
				h.works[0], h.devices[0].Work = c.busy, time.Duration(c.work*float64(ms))
				m := h.watched(t, c.budget)
				time.Sleep(3 * time.Second)
				wantUtilization(t, m, c.want)
				if got, is := m.Utilization(); !is || got != report(t, m).GetApplicationUtilization() {
					t.Errorf("the metric has %v, %v, want what the report has", got, is)
				}
			})
		})
	}
}

// TestRest: a server at rest is measured seldom, and as often as ever from its first answer on.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 50 * time.Millisecond
		h := &house{devices: []sharedsched.DeviceLoad{{Name: "a"}}, works: []float64{0}}
		m := h.watched(t, budget)
		during := func(d time.Duration) (measured int) {
			h.change(func() { measured = -h.measured })
			time.Sleep(d)
			h.change(func() { measured += h.measured })
			return measured
		}
		time.Sleep(20*time.Second + 10*time.Millisecond) // no measurement is due at the same time as the end
		if got := during(10 * time.Second); got > 20 {
			t.Errorf("at rest there were %d measurements in 10 s", got)
		}
		h.change(func() { h.rate, h.works[0], h.devices[0].Work = 100, 1, budget })
		time.Sleep(10 * time.Millisecond)
		m.Trailer()
		if got := report(t, m).GetApplicationUtilization(); got > 0.5 {
			t.Errorf("what has waited for 10 ms counts as if it had all the time: utilization %v", got)
		}
		time.Sleep(50 * time.Millisecond)
		if got := report(t, m).GetRpsFractional(); got == 0 {
			t.Error("50 ms after an answer the report says that there is none")
		}
		if got := during(time.Second); got < 49 {
			t.Errorf("with requests there were %d measurements in 1 s", got)
		}
	})
}

// TestWindows: a device's work counts for a second, and what waits for a tenth of one.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{
			rate: 40, devices: []sharedsched.DeviceLoad{{Name: "a", Full: 100 * time.Millisecond}}, works: []float64{1},
		}
		m := h.watched(t, 0)
		time.Sleep(5 * time.Second)
		wantUtilization(t, m, 1)
		h.change(func() { h.works[0] = 0 })
		time.Sleep(500 * time.Millisecond)
		wantUtilization(t, m, 0.5)
		h.change(func() { h.devices[0].Work = 100 * time.Millisecond })
		time.Sleep(40 * time.Millisecond)
		wantUtilization(t, m, 0.46+0.4)
		time.Sleep(60 * time.Millisecond)
		wantUtilization(t, m, 0.4+1)
		h.change(func() { h.devices[0].Work = 0 })
		time.Sleep(100 * time.Millisecond)
		wantUtilization(t, m, 0.3)
		time.Sleep(500 * time.Millisecond)
		wantUtilization(t, m, 0)
	})
}

// TestDevicesComeAndGo: the mean is over the present ones. A server without any is no place to send requests to.
func TestDevicesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{rate: 40}
		m := h.watched(t, 0)
		time.Sleep(time.Second)
		wantUtilization(t, m, 2)
		if _, is := m.Utilization(); is {
			t.Error("the metric has a number, and no device has a version")
		}
		h.change(func() {
			h.devices, h.works = []sharedsched.DeviceLoad{{Name: "a", Busy: time.Hour}, {Name: "b"}}, []float64{1, 0}
		})
		time.Sleep(2 * time.Second)
		wantUtilization(t, m, 0.5)
		h.change(func() { h.devices, h.works = h.devices[:1], h.works[:1] }) // b is lost
		time.Sleep(time.Second)
		wantUtilization(t, m, 1)
		h.change(func() { h.devices[0].Busy = 0 }) // a was lost, and is back
		time.Sleep(40 * time.Millisecond)
		if got := report(t, m).GetApplicationUtilization(); got < 0.9 || got > 1 {
			t.Errorf("utilization %v after a device came back, want nearly 1", got)
		}
		h.change(func() { h.devices = nil })
		time.Sleep(40 * time.Millisecond)
		wantUtilization(t, m, 2)
	})
}

// TestRates: answers and refusals a second, and the same from one moment to the next where there are few.
func TestRates(t *testing.T) {
	for _, rate := range []float64{400, 40, 7, 1.5, 0.3} {
		synctest.Test(t, func(t *testing.T) {
			h := &house{rate: rate, refusals: 2 * rate, devices: []sharedsched.DeviceLoad{{Name: "a"}}, works: []float64{0.5}}
			m := h.watched(t, 0)
			time.Sleep(20 * time.Second)
			for range 100 {
				time.Sleep(37 * time.Millisecond)
				r := report(t, m)
				if got := r.GetRpsFractional(); math.Abs(got-rate) > max(0.11*rate, 0.11) {
					t.Errorf("%v requests a second, want %v", got, rate)
				}
				if got := r.GetEps(); math.Abs(got-2*rate) > max(0.22*rate, 0.22) {
					t.Errorf("%v refusals a second, want %v", got, 2*rate)
				}
			}
			h.change(func() { h.rate, h.refusals = 0, 0 })
			time.Sleep(11 * time.Second)
			if r := report(t, m); r.GetRpsFractional() != 0 || r.GetEps() != 0 {
				t.Errorf("%v without a request", r)
			}
		})
	}
}
