package shadow

import (
	"math"
	"slices"
	"time"
)

// A strip has so many slices of so many seconds at most.
const maxSlices, sliceSeconds = 60, 10

// parts is how rows of an output are divided. They may be of different lengths: a part is then the same part of each.
type parts struct {
	n       int // 0: nothing was seen
	size    int // elements of the latest row
	varying bool
}

// admit takes in the length of another row, and reports whether it is divided more finely than those before.
func (p *parts) admit(s *sight) (finer bool) {
	p.varying = p.varying || p.n > 0 && p.size != s.size
	p.size = s.size
	finer = s.parts > p.n
	p.n = max(p.n, s.parts)
	return finer
}

// fold adds errors of a row that is divided into n parts to those of rows that are divided as finely or more so.
func fold(into []float32, errors []float64) {
	n := len(errors)
	for i := range into {
		if d := errors[i*n/len(into)]; d > float64(into[i]) {
			into[i] = above(d)
		}
	}
}

// above returns the least float32 that is not below a difference; one that is too large is the largest there is.
func above(d float64) float32 {
	f := float32(d)
	switch {
	case math.IsInf(d, 1):
		return f
	case d > math.MaxFloat32:
		return math.MaxFloat32
	case float64(f) < d:
		return math.Nextafter32(f, math.MaxFloat32)
	}
	return f
}

// strip is the largest errors of the parts of an output's row, in slices of time.
type strip struct {
	parts
	slices []*slice // the oldest first, without those in which nothing was compared
}

type slice struct {
	number    int64 // Unix time / sliceSeconds
	rows      int64
	magnitude float64
	errors    []float32
}

func numberOf(at time.Time) int64 { return at.Unix() / sliceSeconds }

// add takes in a comparison. A clock that was put back goes on where it was.
func (t *strip) add(s *sight, at time.Time) {
	if t.admit(s) {
		t.slices = nil // their parts are too coarse
	}
	number := numberOf(at)
	if n := len(t.slices); n == 0 || t.slices[n-1].number < number {
		t.slices = append(t.slices, &slice{number: number, errors: make([]float32, t.n)})
		t.slices = slices.DeleteFunc(t.slices, func(s *slice) bool { return s.number <= number-maxSlices })
	}
	now := t.slices[len(t.slices)-1]
	now.rows += s.rows
	now.magnitude = max(now.magnitude, s.magnitude)
	fold(now.errors, s.errors[:s.parts])
}

// shown returns the slices that are not too old at some time, as copies, and the largest magnitude in them.
func (t *strip) shown(at time.Time) (all []Slice, magnitude float64) {
	for _, s := range t.slices {
		if s.number > numberOf(at)-maxSlices {
			all = append(all, Slice{time.Unix(s.number*sliceSeconds, 0), s.rows, slices.Clone(s.errors)})
			magnitude = max(magnitude, s.magnitude)
		}
	}
	return all, magnitude
}
