package proof

import "math"

// plan is how many runs a trial has made, and is to make as far as that can be told. It decides nothing.
type plan struct {
	told func(done, of int64) // nil: nobody asks
	done int64
	of   int64
	rest int64 // runs of the steps after the one that was planned last
}

// next plans the runs of the step that begins, in the place of what was planned of the one before.
func (p *plan) next(runs int) {
	p.of = p.done + int64(runs) + p.rest
	p.tell()
}

// ran notes a run.
func (p *plan) ran() {
	p.done++
	p.of = max(p.of, p.done)
	p.tell()
}

func (p *plan) tell() {
	if p.told != nil {
		p.told(p.done, p.of)
	}
}

// growRuns is how many runs grow makes of sizes, if it makes all.
func (t *trial) growRuns(base *baseline, sizes []int) (runs int) {
	smaller := 0
	for _, size := range sizes {
		full, padded := t.runsOf(base, smaller, size)
		runs, smaller = runs+full+padded, size
	}
	return runs
}

// The batches that are run with each kind of rows, with each value of an input without rows, and with each size of the
// open dimensions.
const (
	kindBatches      = 5
	parameterBatches = 3
	extentBatches    = 2
)

// kindRuns is how many runs varyRows makes at most, but for rows that are run twice.
func (t *trial) kindRuns() (runs int) {
	for n := range kinds {
		if k := &kinds[n]; k.changesAny(t.decision.Signature) {
			runs += k.most() + kindBatches
		}
	}
	return runs
}

// extentRuns is how many runs varyExtents makes at most.
func (t *trial) extentRuns(base *baseline) (runs int) {
	for _, extent := range t.extents() {
		if t.varies(base, extent) {
			runs += extentRows + extentBatches
		}
	}
	return runs
}

// valueRuns is how many runs varyValues makes at most, but for rows that the model refuses.
func (t *trial) valueRuns(base *baseline, most int) int {
	size := spreadSize(base, most)
	return spreadsRuns(t.spreads(base, size, func(int) int64 { return math.MaxInt64 }), size)
}

// spreadsRuns is how many runs rows take in batches of a size.
func spreadsRuns(all []spread, size int) (runs int) {
	for i := range all {
		runs += 4 * (len(all[i].rows) / (2 * size))
		if rest := len(all[i].rows) % (2 * size); rest > 0 {
			runs += (rest+size-1)/size + min(2, rest-1)
		}
	}
	return runs
}
