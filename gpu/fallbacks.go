package gpu

import "sync/atomic"

// FallBacks counts how often something less than a fresh and whole sample had to do, since the Sampler began.
type FallBacks struct {
	NotSupported int64 // quantities that the device does not tell, each counted once
	Failed       int64 // readings that failed
	Expired      int64 // samples that became too old while somebody looked at them, and values of fresh samples that did
	Blackouts    int64 // times at which the device was left alone for a while after failures
	Lost         int64 // times at which the device was lost
}

// counters are FallBacks that one goroutine changes while others read them.
type counters struct{ notSupported, failed, expired, blackouts, lost atomic.Int64 }

func (c *counters) counts() FallBacks {
	return FallBacks{
		NotSupported: c.notSupported.Load(), Failed: c.failed.Load(), Expired: c.expired.Load(),
		Blackouts: c.blackouts.Load(), Lost: c.lost.Load(),
	}
}
