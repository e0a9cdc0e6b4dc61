package cost

import (
	"slices"
	"time"
)

const (
	window  = 11 // samples kept per size: a median over it follows a change after six
	settled = 5  // samples from which a size's spread is believed

	// outlierWeight is how many ordinary samples an outlier must come with, in the long run, to be one.
	outlierWeight = 4

	// The two-sided CUSUM test (Page, "Continuous inspection schemes", Biometrika 1954) sums by how much logarithms of
	// sample/median exceed the slack, each way. A change of 20 % is found in four samples, one of 10 % not before the
	// median itself has followed. Where the standard deviation is more than 10 %, noise would do for a change, and
	// logarithms are divided by as much as it is more: the usual choice is a slack of half of it and a limit of five.
	driftSlack = 0.05
	driftLimit = 0.5
)

// size holds the measurements of executions of one size, in the device's reference state.
type size struct {
	rows   int
	ring   [window]time.Duration // samples by age
	sorted [window]time.Duration // the same by value
	n      int                   // samples since the window was last restarted
	median time.Duration
	mad    time.Duration // the median of the distances from the median (Hampel, JASA 1974)
	high   time.Duration // about the 95th percentile
	used   uint64        // when it was measured last, in settlements of the curve

	shownMedian, shownHigh time.Duration // as estimates have them; 0 before

	aside    [MinSamples]time.Duration // the latest samples, while they are outliers on the same side
	nAside   int
	outliers int     // ever set aside
	recent   int     // of late: each adds outlierWeight, and each other sample takes 1 off
	up, down float64 // the sums of the drift test
}

// isNews reports whether the size has become known, or has moved away from the values in the estimates: its median by 1
// %, its high by 4 %. Estimates need not follow every nanosecond, for callers keep figures derived from them.
func (s *size) isNews() bool {
	median, high := s.median-s.shownMedian, s.high-s.shownHigh
	return s.n >= MinSamples &&
		(max(median, -median)*100 >= s.shownMedian || max(high, -high)*25 >= s.shownHigh)
}

// isOutlier reports whether a sample is too far from the median to be one of the same kind: four standard deviations
// and 25 %.
func (s *size) isOutlier(sample time.Duration) bool {
	return s.n >= MinSamples && max(sample-s.median, s.median-sample) > max(s.mad*59304/10000, s.median/4)
}

// take learns from a sample. It reports whether the window was restarted.
//
// An outlier is set aside. Several in a row on the same side are no outliers: the cost has changed, and the window
// restarts with them. It also restarts, with the latest samples, when the drift test finds a change that is too small
// for that. Samples that keep coming among others are not outliers either: such is the spread of the size.
func (s *size) take(sample time.Duration) (restarted bool) {
	if s.isOutlier(sample) {
		if s.nAside > 0 && (s.aside[0] > s.median) != (sample > s.median) {
			s.nAside = 0
		}
		s.aside[s.nAside] = sample
		s.nAside++
		if s.nAside == len(s.aside) {
			s.outliers++
			s.restart(s.aside)
			return true
		}
		if s.recent = min(s.recent+outlierWeight, 3*outlierWeight); s.recent <= 2*outlierWeight {
			s.outliers++
			return false
		}
	} else {
		s.nAside, s.recent = 0, max(0, s.recent-1)
		if s.isDrift(sample) {
			s.restart([...]time.Duration{s.ring[(s.n-2)%window], s.ring[(s.n-1)%window], sample})
			return true
		}
	}
	s.add(sample)
	return false
}

func (s *size) isDrift(sample time.Duration) bool {
	if s.n < MinSamples {
		return false
	}
	l := ln(float64(sample) / float64(s.median))
	if spread := 14.826 * float64(s.mad); spread > float64(s.median) {
		l = l * float64(s.median) / spread
	}
	s.up = max(0, s.up+l-driftSlack)
	s.down = max(0, s.down-l-driftSlack)
	return s.up > driftLimit || s.down > driftLimit
}

func (s *size) restart(samples [MinSamples]time.Duration) {
	s.n, s.nAside, s.recent, s.up, s.down = 0, 0, 0, 0, 0
	for _, sample := range samples {
		s.add(sample)
	}
}

// add puts a sample into the window, in the place of the oldest if it is full, and brings the median up to date: the
// lower of two middles. The values stay sorted, for sorting them from scratch each time cost more than all the rest of
// a settlement.
func (s *size) add(sample time.Duration) {
	n := min(s.n, window)
	out := n // where a value leaves the sorted ones
	if n == window {
		out, _ = slices.BinarySearch(s.sorted[:], s.ring[s.n%window])
	} else {
		n++
	}
	i := out
	for ; i > 0 && s.sorted[i-1] > sample; i-- {
		s.sorted[i] = s.sorted[i-1]
	}
	for ; i < n-1 && s.sorted[i+1] < sample; i++ {
		s.sorted[i] = s.sorted[i+1]
	}
	s.sorted[i] = sample
	s.ring[s.n%window] = sample
	s.n++
	s.median = s.sorted[(n-1)/2]
	s.mad = spread(s.sorted[:n])
	// Of normal samples 1.4826 MAD is the standard deviation. Three of them leave room for a median that is wrong
	// itself, and few samples are given more.
	s.high = s.median + max(s.mad*44478/10000, s.median/50)
	if s.n < settled {
		s.high += s.high / 4
	}
}

// spread returns the median of the distances from the median of sorted values: it walks from the middle outwards, to
// whichever side is nearer, half of the way.
func spread(sorted []time.Duration) time.Duration {
	m := (len(sorted) - 1) / 2
	median, below, above := sorted[m], m, m+1
	var distance time.Duration
	for range m + 1 {
		if above == len(sorted) || below >= 0 && median-sorted[below] <= sorted[above]-median {
			distance = median - sorted[below]
			below--
		} else {
			distance = sorted[above] - median
			above++
		}
	}
	return distance
}
