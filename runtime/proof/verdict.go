package proof

import (
	"cmp"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Verdict is how a version is to be served, and why. The zero value joins nothing.
type Verdict struct {
	// Batched: rows of different requests may share executions.
	Batched bool
	// Reason is one sentence for the metadata.
	Reason string
	// Proof is the basis of batching, and Obstacle the reason why there is no proof by structure, "" where none was
	// asked for.
	Proof    catalog.Proof
	Obstacle string
	// Padded: requests of different lengths share executions.
	Padded bool
	// Difference is the largest deviation that the proof saw, relative to the largest magnitude.
	Difference float64
	// Rounds: deviations beyond the tolerance were found to be rounding.
	Rounds bool
	// Most is the most rows that one execution may have, and Allowed the sizes that it may have (empty: any).
	Most    int
	Allowed []int
	// Useful is the size of batches that is worth it by the measured costs, for a manifest that names none. 0: not known,
	// so that it is usualRows.
	Useful int
	// RowMemory is the device memory, in bytes, that a further row of an execution takes; 0: not known.
	RowMemory int64
	// Tolerance is the one that the manifest states, 0 for none.
	Tolerance float64
	// AnyValue: rows may share executions whatever the inputs without rows say. Else each value is proven before it
	// is joined.
	AnyValue bool

	// wrong is the evidence against batching, if that was tried; it is part of the reason.
	wrong string
	// tried are the sizes that were run, for messages, and end why larger ones were not.
	tried, end string
	// dear: larger batches were not tried because they would exceed the budget of an execution.
	dear bool
}

// Covers reports whether the sizes that executions may have according to a manifest (to) are among the ones that the
// proof saw, which was made for a manifest with others (from).
func (v *Verdict) Covers(from, to *modelrepo.Batching) bool {
	a, b := from.AllowedBatchSizes, to.AllowedBatchSizes
	switch {
	case !v.Batched || slices.Equal(a, b):
		// Where the size was left to what is measured, larger ones than need be were not tried.
		return !v.Batched || from.MaxBatchSize > 0 || to.MaxBatchSize <= v.Most
	case len(a) == 0: // any size up to v.Most
		return len(b) > 0 && b[0] <= v.Most
	}
	return len(b) > 0 && slices.Contains(v.Allowed, b[0]) &&
		!slices.ContainsFunc(b, func(size int) bool { return !slices.Contains(a, size) })
}

// Under returns the verdict of a proof for a manifest whose sizes it has seen.
func (v Verdict) Under(b *modelrepo.Batching) Verdict {
	if !v.Batched {
		return v
	}
	most, proven := min(v.Most, b.Largest()), v.Allowed
	if b.MaxBatchSize == 0 && len(b.AllowedBatchSizes) == 0 {
		most = min(most, cmp.Or(v.Useful, usualRows))
	}
	v.Most, v.Allowed = most, nil
	for _, size := range b.AllowedBatchSizes {
		if size <= most && (len(proven) == 0 || slices.Contains(proven, size)) {
			v.Allowed = append(v.Allowed, size)
		}
	}
	if n := len(v.Allowed); n > 0 {
		v.Most = v.Allowed[n-1]
	}
	return v
}

// shrink forbids sizes that were not proven for every bucket.
func (v *Verdict) shrink(most int) {
	v.Most = min(v.Most, most)
	v.Allowed = slices.DeleteFunc(slices.Clone(v.Allowed), func(size int) bool { return size > v.Most })
}
