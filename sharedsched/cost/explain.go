package cost

import "time"

// Entry describes one size of a curve. Its times are for the device's reference state: an estimate is Factor times
// that.
type Entry struct {
	Rows     int
	Median   time.Duration
	MAD      time.Duration // the median distance from the median
	High     time.Duration // the size's own, about the 95th percentile
	Samples  int           // in the window
	Outliers int           // set aside, ever
	Trusted  bool          // measured often enough for estimates to rest on it
}

// Entries returns the measured sizes, ascending by rows.
func (c *Curve) Entries() []Entry {
	entries := make([]Entry, len(c.sizes))
	for i, s := range c.sizes {
		entries[i] = Entry{s.rows, s.median, s.mad, s.high, min(s.n, window), s.outliers, s.n >= MinSamples}
	}
	return entries
}

// Explanation has the parts of a curve's estimates besides its entries.
type Explanation struct {
	// Alpha + Beta × rows is the line through the known sizes, for the device's reference state. Zero with less than
	// two.
	Alpha, Beta time.Duration
	// Inherited: the line and all estimates are another curve's.
	Inherited bool
	Drifts    int
	// Factor multiplies estimates, for the state of the device. Residual is its part that is this curve's own.
	Factor, Residual float64
	// ClockShare is the part of the time that goes with the inverse of the clock, and CoTenantGain by how much it grows
	// with the share of the device that others use.
	ClockShare, CoTenantGain float64
}

// Explain returns the parts of the estimates.
func (c *Curve) Explain() Explanation {
	x := Explanation{
		Inherited: len(c.own.points) == 0 && len(c.given.points) > 0,
		Drifts:    c.drifts, Factor: 1, Residual: exp(c.link.residual),
		ClockShare: c.link.clockShare(), CoTenantGain: c.link.coTenantGain(),
	}
	t := &c.own
	if x.Inherited {
		t = &c.given
	}
	if len(t.points) > 1 {
		l := t.fit()
		x.Alpha, x.Beta = time.Duration(l.alpha), time.Duration(l.beta)
	}
	if c.link.device != nil {
		x.Factor, _ = c.link.published()
	}
	return x
}

// Drifts returns how often a size's window was restarted because its cost had changed.
func (c *Curve) Drifts() int { return c.drifts }
