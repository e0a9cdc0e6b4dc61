package cost

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzCurve feeds histories to two curves and a device, and checks after each event the properties that callers rely
// on.
func FuzzCurve(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 600)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, history []byte) {
		var d Device
		curves := [2]Curve{}
		curves[0].On(&d)
		var seen revisions
		for len(history) >= 6 {
			kind, rows, value := history[0], 1+int(history[1]), int64(binary.LittleEndian.Uint32(history[2:]))
			history = history[6:]
			c := &curves[kind&1]
			switch kind >> 1 % 8 {
			case 0:
				d.Observe(Sample{
					Clock: int(value % 2000), MaxClock: 1000, Idle: value&1<<20 != 0, Throttled: value&1<<21 != 0,
					CoTenant: int(value >> 22), Expired: value&0xf<<16 == 0,
				})
			case 1:
				c.Inherit(&curves[value%2])
			case 2:
				c.Abandon(c.Begin(rows))
			case 3:
				c.Settle(c.Begin(rows), time.Duration(value)<<(value%32)) // anything, overlong times too
			default:
				c.Settle(c.Begin(rows), time.Duration(rows)*ms+time.Duration(value%5_000_000))
			}
			seen.check(t, c)
			check(t, c)
		}
	})
}

// revisions remembers an estimate of each curve with its revision.
type revisions map[*Curve]struct {
	revision uint64
	estimate Estimate
}

// check wants a changed estimate to come with a changed revision.
func (r *revisions) check(t *testing.T, c *Curve) {
	if *r == nil {
		*r = revisions{}
	}
	before, ok := (*r)[c]
	now := before
	now.revision, now.estimate = c.Revision(), c.Estimate(77)
	if ok && now.revision == before.revision && now.estimate != before.estimate {
		t.Fatalf("%+v became %+v within a revision", before.estimate, now.estimate)
	}
	(*r)[c] = now
}

func check(t *testing.T, c *Curve) {
	last := Estimate{Cost: 1, High: 1}
	for rows := 1; rows < 1100; rows += 1 + rows/16 {
		e := c.Estimate(rows)
		if e.Cost < last.Cost || e.High < last.High || e.High < e.Cost {
			t.Fatalf("%+v after %+v", e, last)
		}
		if e.Source == Unmeasured != c.IsCold() {
			t.Fatalf("%+v of a curve that is cold: %v", e, c.IsCold())
		}
		if least, ok := c.AtLeast(rows); ok && least > e.Cost {
			t.Fatalf("%+v, and at least %v", e, least)
		}
		last = e
	}
	toFour := func(rows int) int { return (rows + 3) / 4 * 4 }
	for _, budget := range []time.Duration{0, ms, 20 * ms, 100 * ms} {
		most := c.MaxRows(budget, 64, toFour)
		fits := func(rows int) bool {
			return budget == 0 || toFour(rows) == 4 || c.Estimate(toFour(rows)).Cost <= budget
		}
		switch {
		case most < 1 || most > 64:
			t.Fatalf("MaxRows = %d of 64", most)
		case c.IsCold():
			if most != ColdRows {
				t.Fatalf("MaxRows = %d of a cold curve", most)
			}
		case !fits(most), most < min(64, 2*c.largest()) && fits(most+1):
			t.Fatalf("MaxRows(%v) = %d, where %d rows cost %v and one more %v", budget, most, toFour(most),
				c.Estimate(toFour(most)).Cost, c.Estimate(toFour(most+1)).Cost)
		}
	}
	if c.inFlight != 0 {
		t.Fatalf("%d in flight", c.inFlight)
	}
}
