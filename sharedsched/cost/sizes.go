package cost

import "slices"

const maxSizes = 128 // sizes kept per curve

// size finds the record of a size or makes one. If there are too many it takes the place of one that is not trusted
// yet, the newest of those, so that the others get their samples together; if all are trusted, of the one not used for
// longest.
func (c *Curve) size(rows int) *size {
	// As a rule all sizes are trusted, and the table, which lies in one piece, has them at the same places.
	if i := c.own.search(rows); i < len(c.sizes) && c.sizes[i].rows == rows {
		return c.sizes[i]
	}
	i, ok := slices.BinarySearchFunc(c.sizes, rows, func(s *size, r int) int { return s.rows - r })
	if ok {
		return c.sizes[i]
	}
	if len(c.sizes) == maxSizes {
		out := 0
		for j, s := range c.sizes {
			if s.givesWayBefore(c.sizes[out]) {
				out = j
			}
		}
		trusted := c.sizes[out].n >= MinSamples
		c.sizes = slices.Delete(c.sizes, out, out+1)
		if out < i {
			i--
		}
		if trusted {
			c.rebuild()
		}
	}
	s := &size{rows: rows}
	c.sizes = slices.Insert(c.sizes, i, s)
	return s
}

func (s *size) givesWayBefore(t *size) bool {
	if s.n != t.n && (s.n < MinSamples || t.n < MinSamples) {
		return s.n < t.n
	}
	if s.n < MinSamples {
		return s.used > t.used
	}
	return s.used < t.used
}

// rebuild derives the table from the sizes.
func (c *Curve) rebuild() {
	c.revision++
	c.given = table{} // from now on there is something better
	c.own.reset(c.clock)
	for _, s := range c.sizes {
		if s.n >= MinSamples {
			s.shownMedian, s.shownHigh = s.median, s.high
			c.own.append(point{s.rows, s.median, s.high, s.used})
		}
	}
	c.own.levelHighs()
}
