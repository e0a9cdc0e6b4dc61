package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Config holds the settings of a Sampler.
type Config struct {
	Source Source
	// Devices are those to watch, as the Source numbers them. Names must differ.
	Devices []Device
	// Interval is how often clock, reasons, utilisation and memory are read. Zero: 150 ms. Too low holds up other calls
	// of the driver, which has one lock for many of them; too high learns late of a clock that was cut. Power,
	// temperature, the shares of processes and so on are read every second, or every interval if that is longer: a
	// share that is known later than that does more harm than good (docs/sim/README.md).
	Interval time.Duration
	// Expiry is how old a sample may become. Zero: 3 s, or 3 intervals if that is more. Where the driver needs longer
	// to report on all devices, a sample lasts until the next can be there, three times as long at most.
	Expiry time.Duration
	// OnLost is called once each time that a device is lost, with the device and the Source's error. It is called in
	// Run, which waits for it. May be nil.
	OnLost func(d Device, cause error)
	// Logger gets, once each, the quantities that a device does not report, a device that fails or is lost, and its
	// return; and the reasons that an operator should look at, when they begin and when they are over. Nil:
	// slog.Default().
	Logger *slog.Logger
}

const (
	defaultInterval = 150 * time.Millisecond
	defaultExpiry   = 3 * time.Second
	slowInterval    = time.Second
	// share is the inverse of the part of its time that the poller spends asking, where the driver is slow. It spends
	// more where samples would become too old otherwise.
	share = 10
	// hanging is after how many times the expiry a driver counts as one that hangs, however slow it was before.
	hanging = 3
)

// Sampler asks a Source about its devices from time to time and keeps the latest answers. All methods but Run are safe
// for concurrent use.
type Sampler struct {
	source   Source
	interval time.Duration
	expiry   time.Duration
	onLost   func(Device, error) // may be nil
	log      *slog.Logger
	lasts    atomic.Int64 // for how long a sample is good at the present pace, in nanoseconds

	watched []*watched
	byName  map[string]*watched // immutable

	requests chan memoryRequest
	ended    chan struct{} // closed when Run returns
}

// NewSampler returns a Sampler, which knows nothing before Run.
func NewSampler(cfg Config) *Sampler {
	s := &Sampler{
		source: cfg.Source, interval: cmp.Or(cfg.Interval, defaultInterval), onLost: cfg.OnLost,
		log:    cmp.Or(cfg.Logger, slog.Default()),
		byName: map[string]*watched{}, requests: make(chan memoryRequest), ended: make(chan struct{}),
	}
	s.expiry = cmp.Or(cfg.Expiry, max(defaultExpiry, 3*s.interval))
	s.lasts.Store(int64(s.expiry))
	for i, d := range cfg.Devices {
		w := &watched{Device: d, index: i, sampler: s}
		s.watched = append(s.watched, w)
		s.byName[d.Name] = w
	}
	return s
}

// Run asks until ctx ends. It is called once.
func (s *Sampler) Run(ctx context.Context) {
	defer close(s.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.requests:
			r.reply <- r.of.readMemory()
		case <-timer.C:
			begin := time.Now()
			for _, w := range s.watched {
				w.sweep()
			}
			timer.Reset(s.pace(time.Since(begin)))
		}
	}
}

// pace returns how long the poller rests after a round that took that long: a slow driver is asked less often, but not
// so much less that samples become too old before the next. Where asking alone takes too long for that, they last for
// longer, by half more than the time until the next: samples that come and go would make estimates come and go.
func (s *Sampler) pace(took time.Duration) (rest time.Duration) {
	rest = max(s.interval, min(share*took, s.expiry/2))
	s.lasts.Store(int64(max(s.expiry, min((took+rest)*3/2, hanging*s.expiry))))
	return rest
}

// isOld reports whether a sample of that age is too old.
func (s *Sampler) isOld(age time.Duration) bool { return age > time.Duration(s.lasts.Load()) }

// every returns how often a quantity is read.
func (s *Sampler) every(q Quantity) time.Duration {
	switch q {
	case Clock, EventReasons, Utilisation, Memory: // each a matter of microseconds
		return s.interval
	default:
		return max(s.interval, slowInterval)
	}
}

// Devices lists the devices. The slice is the caller's.
func (s *Sampler) Devices() []Device {
	var devices []Device
	for _, w := range s.watched {
		devices = append(devices, w.Device)
	}
	return devices
}

// Latest returns the latest sample of the named device, and a number that grows with every sample; 0 while there has
// been none. One that is too old has given way to one that is Expired, with the next number. It neither blocks nor
// allocates.
func (s *Sampler) Latest(name string) (Sample, uint64) {
	w := s.byName[name]
	if w == nil {
		return Sample{}, 0
	}
	return w.read()
}

// FallBacks returns how often something less than a fresh and whole sample of the named device had to do, by a word for
// the reason; nil if it is not watched. The map is the caller's.
func (s *Sampler) FallBacks(name string) map[string]int64 {
	w := s.byName[name]
	if w == nil {
		return nil
	}
	return w.byReason()
}

// ErrStopped is returned by a Sampler that does not run any more.
var ErrStopped = errors.New("GPU telemetry has stopped")

type memoryRequest struct {
	of    *watched
	reply chan memoryReply // of capacity 1
}

type memoryReply struct {
	total, free int64
	err         error
}

// ReadMemory makes the poller read the memory of the named device right now, for a caller that is about to need much of
// it. It waits for the driver, or until ctx ends. The figures are in bytes.
func (s *Sampler) ReadMemory(ctx context.Context, name string) (total, free int64, err error) {
	w := s.byName[name]
	if w == nil {
		return 0, 0, fmt.Errorf("read the memory of %s: GPU telemetry does not watch it", name)
	}
	r := memoryRequest{of: w, reply: make(chan memoryReply, 1)}
	select {
	case s.requests <- r:
	case <-s.ended:
		err = ErrStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		select {
		case answer := <-r.reply:
			total, free, err = answer.total, answer.free, answer.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of %s: %w", name, err)
	}
	return total, free, nil
}

// fallBacks counts how often something less than a fresh and whole sample had to do, since the Sampler began.
type fallBacks struct {
	notSupported atomic.Int64 // quantities that the device does not report, each counted once
	failed       atomic.Int64 // readings that failed
	// samples that became too old and were read then, and values of fresh samples that became too old
	expired   atomic.Int64
	blackouts atomic.Int64 // times at which the device was left alone for a while after failures
	lost      atomic.Int64 // times at which the device was lost
}

// byReason returns the counts by their names in metrics.
func (f *fallBacks) byReason() map[string]int64 {
	return map[string]int64{
		"not_supported": f.notSupported.Load(), "failed": f.failed.Load(), "expired": f.expired.Load(),
		"blackout": f.blackouts.Load(),
		"lost":     f.lost.Load(),
	}
}
