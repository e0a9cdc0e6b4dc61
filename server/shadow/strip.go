package shadow

import (
	"math"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/tensor/compare"
)

// maxSlices bounds the slices of a strip, each of SliceDuration.
const maxSlices = 60

// parts is how rows of an output are divided. They may be of different lengths: a part is then the same part of each.
// There is one part for each element as long as compare.MaxParts suffice.
type parts struct {
	n       int // 0: nothing was seen
	size    int // elements of the latest row
	varying bool
}

// admit takes in the length of another row, and reports whether it is divided more finely than those before.
func (p *parts) admit(s *compare.Profile) (finer bool) {
	p.varying = p.varying || p.n > 0 && p.size != s.Size
	p.size = s.Size
	finer = s.Parts > p.n
	p.n = max(p.n, s.Parts)
	return finer
}

// fold adds errors of a row that is divided into n parts to those of rows that are divided as finely or more so. Each
// part keeps the largest.
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
	f := float32(min(d, math.MaxFloat32))
	switch {
	case math.IsInf(d, 1):
		return float32(d)
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

// slice is a Slice, and the largest magnitude of an element in it, by which leastFloor goes.
type slice struct {
	Slice
	magnitude float64
}

// old reports whether a slice began too long before the one that begins now.
func (s *slice) old(now time.Time) bool { return now.Sub(s.Start) >= maxSlices*SliceDuration }

// add takes in a comparison. A clock that was put back goes on where it was: the slices stay in order. Once rows are
// divided more finely, the slices before are dropped.
func (t *strip) add(s *compare.Profile, at time.Time) {
	if t.admit(s) {
		t.slices = nil // their parts are too coarse
	}
	start := at.Truncate(SliceDuration)
	if n := len(t.slices); n == 0 || t.slices[n-1].Start.Before(start) {
		t.slices = append(t.slices, &slice{Slice: Slice{Start: start, Errors: make([]float32, t.n)}})
		t.slices = slices.DeleteFunc(t.slices, func(s *slice) bool { return s.old(start) })
	}
	now := t.slices[len(t.slices)-1]
	now.Rows += s.Rows
	now.magnitude = max(now.magnitude, s.Magnitude)
	fold(now.Errors, s.Errors[:s.Parts])
}

// shown returns the slices that are not too old at some time, as copies, and the largest magnitude in them.
func (t *strip) shown(at time.Time) (all []Slice, magnitude float64) {
	for _, s := range t.slices {
		if !s.old(at.Truncate(SliceDuration)) {
			all = append(all, Slice{s.Start, s.Rows, slices.Clone(s.Errors)})
			magnitude = max(magnitude, s.magnitude)
		}
	}
	return all, magnitude
}
