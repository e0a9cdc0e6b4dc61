package owntime

import (
	"slices"
	"sort"
	"time"
)

// curve is how much time was lost until when. It is a line between two of its points, and level before the first and
// after the last. Both coordinates ascend.
type curve []point

// point says how much was lost until a time, since the first point.
type point struct {
	at   time.Time
	lost time.Duration
}

const (
	// points is how many there are at most. When there are more, every second point of the older half is removed.
	points = 512
	// recent is how far back steep looks.
	recent = time.Minute
)

// add adds what was lost between two times. The first must not be before the second of any earlier call. Time without a
// loss adds no point.
func (c *curve) add(from, to time.Time, lost time.Duration) {
	if lost <= 0 {
		return
	}
	before := time.Duration(0)
	if n := len(*c); n > 0 {
		before = (*c)[n-1].lost
	}
	// Between the last loss and this one nothing was lost: a level piece.
	if n := len(*c); n == 0 || (*c)[n-1].at.Before(from) {
		*c = append(*c, point{from, before})
	}
	if *c = append(*c, point{to, before + lost}); len(*c) > points {
		for i := range points / 4 {
			(*c)[i] = (*c)[2*i]
		}
		*c = slices.Delete(*c, points/4, points/2)
	}
}

// at returns how much was lost until then, in logarithmic time.
func (c curve) at(then time.Time) time.Duration {
	n := len(c)
	switch {
	case n == 0:
		return 0
	case !then.Before(c[n-1].at): // most ask for what was just now
		return c[n-1].lost
	case !then.After(c[0].at):
		return c[0].lost
	}
	i := sort.Search(n, func(i int) bool { return c[i].at.After(then) })
	a, b := c[i-1], c[i]
	part := float64(then.Sub(a.at)) / float64(b.at.Sub(a.at))
	return a.lost + time.Duration(part*float64(b.lost-a.lost))
}

// steep reports whether half or more was lost of any time up to a minute that ends now. Times below the interval of
// looks do not count, since a single look would decide.
func (c curve) steep(now time.Time) bool {
	lost := c.at(now)
	for _, p := range slices.Backward(c) {
		passed := now.Sub(p.at)
		if passed > recent {
			return false
		}
		if passed > every && 2*(lost-p.lost) >= passed {
			return true
		}
	}
	return false
}
