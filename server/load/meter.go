// Package load measures how loaded the server is, and reports that to balancers and autoscalers in the form of ORCA
// (Open Request Cost Aggregation): with answers, on streams, and to the metrics.
package load

import (
	"context"
	"sync/atomic"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/sharedsched"
)

// TrailerKey is the trailer of answers that has a report.
const TrailerKey = "endpoint-load-metrics-bin"

const (
	// step is how often the load is measured, if anything happens: it is as old, at most, as a caller learns of it. Each
	// time takes some microseconds.
	step = 20 * time.Millisecond
	// rest is the step while nothing has happened for the longest window, unless an answer ends it.
	rest = 500 * time.Millisecond
	// window is the time over which the devices' work and the requests are counted. Where that has fewer than fewest
	// answers it is longer, up to longest, so that a few requests a second look no different from one to the next.
	window, longest = time.Second, 10 * time.Second
	fewest          = 10
	// backlogOver is the time over which the mean of what waits is taken: a moment's depends on whether a batch was just
	// started.
	backlogOver = 100 * time.Millisecond
	// The budget, where none is set, is the largest full batch within these bounds. A smaller one makes bursts of a few
	// small requests look like load. With a larger one a server counts as loaded only when its requests are late: with
	// one of eight full batches 77 % were in time, with a half to two all.
	leastBudget, mostBudget = 20 * time.Millisecond, 200 * time.Millisecond
	// unserved is the utilization where no device has a version: more than one, so that others are asked.
	unserved = 2
)

// Config holds what a Meter asks.
type Config struct {
	// Devices returns how much the devices have to do, and as of when.
	Devices func() (sharedsched.Time, []sharedsched.DeviceLoad)
	// Requests returns how many requests were answered, ever, and how many could not be for lack of capacity.
	Requests func() (answered, lacked uint64)
	// Budget is the work that may wait, for each device, where it counts as much as a device that works all the time. 0:
	// as long as the largest full batch takes.
	Budget time.Duration
}

// Meter measures the load. Its methods are safe for concurrent use.
type Meter struct {
	config  Config
	samples []sample                 // of the longest window, the latest last; only Watch's
	busy    map[string]time.Duration // of each device, as of the latest sample; only Watch's
	current atomic.Pointer[current]
	resting atomic.Bool
	woken   chan struct{} // capacity 1
}

// New returns a meter that has measured once. It goes on while its Watch runs.
func New(c Config) *Meter {
	m := &Meter{config: c, woken: make(chan struct{}, 1)}
	m.measure()
	return m
}

// sample is what has added up by a moment.
type sample struct {
	at sharedsched.Time
	// busy is the time that the devices worked, and backlog the sum over time of the work that waited, in nanoseconds by
	// nanoseconds: both are means over the devices.
	busy, backlog    float64
	answered, lacked uint64
}

// current is what was measured last.
type current struct {
	report  *orca.OrcaLoadReport
	trailer metadata.MD
	served  bool // a device has a version
}

// Watch measures the load until ctx ends.
func (m *Meter) Watch(ctx context.Context) {
	next := time.NewTimer(step)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-m.woken:
		case <-ctx.Done():
			return
		}
		m.measure()
		m.resting.Store(m.isIdle() && m.current.Load().served)
		if m.resting.Load() {
			next.Reset(rest)
		} else {
			next.Reset(step)
		}
	}
}

// isIdle reports whether nothing has happened for the longest window.
func (m *Meter) isIdle() bool {
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	if last.at.Sub(first.at) < longest {
		return false
	}
	first.at = last.at
	return first == last
}

// Trailer returns the trailer of an answer that is given now, a new one after each measurement. It must not be changed.
func (m *Meter) Trailer() *metadata.MD {
	if m.resting.Load() {
		select {
		case m.woken <- struct{}{}:
		default:
		}
	}
	return &m.current.Load().trailer
}

// Utilization returns the application_utilization that is reported, and whether a device has a version: where none has,
// no number would say how many servers are needed.
func (m *Meter) Utilization() (float64, bool) {
	c := m.current.Load()
	return c.report.GetApplicationUtilization(), c.served
}

// measure takes a sample, and makes the report of it.
func (m *Meter) measure() {
	at, devices := m.config.Devices()
	now := sample{at: at}
	now.answered, now.lacked = m.config.Requests()
	work := m.sum(&now, devices)
	if len(m.samples) > 0 {
		last := &m.samples[len(m.samples)-1]
		now.busy += last.busy
		waited := at.Sub(last.at)
		if m.resting.Load() { // what waits has come lately
			waited = min(waited, step)
		}
		now.backlog = last.backlog + work*float64(waited)
	}
	m.samples = append(m.samples, now)
	for len(m.samples) > 1 && at.Sub(m.samples[1].at) >= longest {
		m.samples = m.samples[1:]
	}
	report := &orca.OrcaLoadReport{}
	since, lately := m.since(window, fewest), m.since(backlogOver, 0)
	if passed := at.Sub(since.at); passed > 0 {
		report.RpsFractional = float64(now.answered-since.answered) / passed.Seconds()
		report.Eps = float64(now.lacked-since.lacked) / passed.Seconds()
		report.ApplicationUtilization = (now.busy-since.busy)/float64(passed) +
			(now.backlog-lately.backlog)/float64(at.Sub(lately.at))/float64(m.budget(devices))
	}
	if len(devices) == 0 {
		report.ApplicationUtilization = unserved
	}
	encoded, _ := proto.Marshal(report) // three numbers always can be
	m.current.Store(&current{
		report: report, trailer: metadata.Pairs(TrailerKey, string(encoded)), served: len(devices) > 0,
	})
}

// budget returns the work that may wait, for each device.
func (m *Meter) budget(devices []sharedsched.DeviceLoad) time.Duration {
	if m.config.Budget > 0 {
		return m.config.Budget
	}
	full := leastBudget
	for _, d := range devices {
		full = max(full, d.Full)
	}
	return min(full, mostBudget)
}

// sum sets for how long the devices worked since the latest sample, and returns the work that waits: of each the mean.
// A device that was not there then, or was lost meanwhile, has not worked.
func (m *Meter) sum(now *sample, devices []sharedsched.DeviceLoad) (work float64) {
	busy := make(map[string]time.Duration, len(devices))
	for _, d := range devices {
		if before, known := m.busy[d.Name]; known {
			now.busy += float64(max(0, d.Busy-before)) / float64(len(devices))
		}
		busy[d.Name] = d.Busy
		work += float64(d.Work) / float64(len(devices))
	}
	m.busy = busy
	return work
}

// since returns the latest sample that is at least so old, and with that many answers since; else the oldest.
func (m *Meter) since(age time.Duration, answers uint64) *sample {
	now := &m.samples[len(m.samples)-1]
	for i := len(m.samples) - 1; i > 0; i-- {
		if s := &m.samples[i]; now.at.Sub(s.at) >= age && now.answered-s.answered >= answers {
			return s
		}
	}
	return &m.samples[0]
}
