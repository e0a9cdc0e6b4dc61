package gpu

import "sync/atomic"

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
