package cost

import (
	"testing"
	"time"
)

// linear measures rows so often that High is settled, at 4 ms and 1 ms a row.
func linear(c *Curve, sizes ...int) {
	for _, rows := range sizes {
		repeat(c, rows, 5, time.Duration(4+rows)*ms)
	}
}

func TestUnseenSizes(t *testing.T) {
	flat := func(c *Curve) { repeat(c, 4, 5, 8*ms); repeat(c, 8, 5, 8*ms) }
	steep := func(c *Curve) { repeat(c, 4, 5, 8*ms); repeat(c, 8, 5, 80*ms) }
	bent := func(c *Curve) { repeat(c, 1, 5, ms); repeat(c, 4, 5, 40*ms); repeat(c, 5, 5, 40*ms) }
	single := func(c *Curve) { repeat(c, 4, 5, 8*ms) }
	alongLine := func(c *Curve) { linear(c, 4, 8) }
	gap := func(c *Curve) { linear(c, 1, 2, 40) }
	for _, tc := range []struct {
		name   string
		of     func(*Curve)
		rows   int
		want   time.Duration
		source Source
	}{
		{"measured", alongLine, 8, 12 * ms, Measured},
		{"between neighbours", alongLine, 6, 10 * ms, Interpolated},
		{"above, along the line", alongLine, 12, 16 * ms, Regressed},
		{"as far as the line is believed", alongLine, 16, 20 * ms, Regressed},
		{"beyond that in proportion", alongLine, 32, 40 * ms, Regressed},
		{"below, along the line", alongLine, 1, 5 * ms, Regressed},
		{"above a single size in proportion", single, 8, 16 * ms, Regressed},
		{"below a single size the same", single, 1, 8 * ms, Regressed},
		{"above, where rows seem to be free", flat, 16, 8 * ms, Regressed},
		{"above, never more than in proportion", bent, 10, 80 * ms, Regressed},
		{"below, never less than in proportion", steep, 1, 2 * ms, Regressed},
		{"between neighbours far apart, along the line", gap, 20, 24 * ms, Regressed},
		{"between those that are not", gap, 2, 6 * ms, Measured},
	} {
		var c Curve
		tc.of(&c)
		if got := c.Estimate(tc.rows); got.Cost != tc.want || got.Source != tc.source {
			t.Errorf("%s: Estimate(%d) = %+v, want %v, %v", tc.name, tc.rows, got, tc.want, tc.source)
		}
	}
}

// TestTheLineStaysWithinNeighboursFarApart has lines that pass below one neighbour, and above one.
func TestTheLineStaysWithinNeighboursFarApart(t *testing.T) {
	for _, costs := range [][3]time.Duration{{20 * ms, 36 * ms, 68 * ms}, {5 * ms, 36 * ms, 40 * ms}} {
		var c Curve
		for i, rows := range []int{1, 32, 64} {
			repeat(&c, rows, 5, costs[i])
		}
		lo, hi := c.Estimate(1), c.Estimate(32)
		for rows := 2; rows < 32; rows++ {
			e := c.Estimate(rows)
			if e.Cost < lo.Cost || e.Cost > hi.Cost || e.High < lo.High || e.High > hi.High || e.Source != Regressed {
				t.Errorf("%+v is not between %+v and %+v", e, lo, hi)
			}
			if e.High < e.Cost*102/100 {
				t.Errorf("%+v: high is too low", e)
			}
		}
	}
}

func TestTheLineFollows(t *testing.T) {
	var c Curve
	linear(&c, 4, 8)
	before := c.Estimate(16).Cost
	linear(&c, 1)
	repeat(&c, 8, 5, 8*ms)
	if after := c.Estimate(16).Cost; before != 20*ms || after > 13*ms {
		t.Errorf("%v, and %v after the largest size became faster", before, after)
	}
}

// TestExtremeTimes has sums and products that would not fit if times were not limited.
func TestExtremeTimes(t *testing.T) {
	var c Curve
	for range 5 {
		measure(&c, 4, 1<<62, 1<<63-1)
		measure(&c, 1, 1)
	}
	for _, rows := range []int{1, 2, 4, 5, 1 << 30} {
		if e := c.Estimate(rows); e.Cost < 1 || e.Cost > longest || e.High < e.Cost || e.High > longest {
			t.Errorf("%+v", e)
		}
	}
	check(t, &c)
	repeat(&c, 8, 5, 1<<63-1)
	check(t, &c)
}

func TestHighOfUnseenSizesIsWider(t *testing.T) {
	var c Curve
	linear(&c, 4, 8)
	for rows, want := range map[int]time.Duration{
		6:  10200 * time.Microsecond, // 2 % between neighbours
		12: 20400 * time.Microsecond, // a quarter more beyond
		4:  8160 * time.Microsecond,
		1:  6375 * time.Microsecond,
		3:  8160 * time.Microsecond, // but never more than the size above
	} {
		if got := c.Estimate(rows).High; got != want {
			t.Errorf("high of %d rows is %v, want %v", rows, got, want)
		}
	}
}

// TestASpreadDoesNotReachLargerSizes has a single row that jitters: high must not say that 64 rows may take as long as
// it rarely does.
func TestASpreadDoesNotReachLargerSizes(t *testing.T) {
	var c Curve
	measure(&c, 1, 5*ms, 20*ms, 40*ms, 10*ms, 30*ms)
	repeat(&c, 64, 5, 30*ms)
	one, all := c.Estimate(1), c.Estimate(64)
	if one.High != all.High || all.High != 30600*time.Microsecond {
		t.Errorf("high of 1 and 64 rows: %v and %v, want 30.6ms both", one.High, all.High)
	}
}

func TestTheLineIsTheLeastSquaresLine(t *testing.T) {
	var c Curve
	linear(&c, 1, 2, 4, 8, 16)
	if x := c.Explain(); x.Alpha.Round(time.Microsecond) != 4*ms || x.Beta.Round(time.Microsecond) != ms {
		t.Errorf("%+v, want 4ms and 1ms a row", x)
	}
	points := []point{{rows: 1, cost: ms}, {rows: 2, cost: 3 * ms}} // a free line would go through (0, -1ms)
	if l := regress(points, 0); l.alpha != 0 || l.beta != 1.4e6 {
		t.Errorf("%+v, want the best line through the origin, 1.4ms a row", l)
	}
}

// TestRecentSizesWeighMore has two sizes measured when a row took 10 ms, and two since it takes 5 ms.
func TestRecentSizesWeighMore(t *testing.T) {
	points := []point{
		{rows: 1, cost: 5 * ms},
		{rows: 2, cost: 20 * ms},
		{rows: 4, cost: 40 * ms},
		{rows: 8, cost: 40 * ms},
	}
	even := regress(points, 0)
	points[0].used, points[3].used = 1000, 1000
	if recent := regress(points, 1000); recent.alpha > 1e6 || even.alpha < 8e6 {
		t.Errorf("%+v, and %+v if all weigh the same; want the former to pass near the origin", recent, even)
	}
}
